"""A leaderboard as a document: its table, what the table rests on, two figures and the verdict."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fallline.document.blocks import Block, Document, Paragraph, Provenance, Table, Verdict
from fallline.document.cells import Cell, Column, Missing, Number, Range, Text, number
from fallline.document.figures import Figure
from fallline.score.figures import figures
from fallline.score.known_pairs import Replay
from fallline.score.leaderboard import Leaderboard, Row
from fallline.score.logs import Logs, Problem
from fallline.score.separation import Pair

SHOWN_PROBLEMS = 5
RECORDS = ("rank", "contestant", "score", "low", "high", "groups", "above_next", "speedup", "reached")

Field = tuple[Column, Callable[[Row], Cell]]
"""A column, and a contestant's cell in it."""

CONTESTANT: Field = (Column("contestant", align="left", key=True), lambda row: Text(row.contestant))
RANK: tuple[Field, Field] = ((Column("#", key=True, digits="whole"), lambda row: Number(row.rank)), CONTESTANT)
ABOVE_NEXT: Field = (Column("P(above\nnext)", digits=2), lambda row: number(row.above_next))


def table_of(fields: Sequence[Field], rows: Iterable[Row], title: str = "", name: str = "") -> Table:
    cells = [[cell(row) for _, cell in fields] for row in rows]
    return Table(title, [column for column, _ in fields], cells, name=name)


def interval(row: Row) -> Cell:
    return Missing() if row.low is None or row.high is None else Range(row.low, row.high)


def document(board: Leaderboard, found: Logs, *, published: bool, replay: Replay | None = None) -> Document:
    """The document of AlgoPerf's logs; ``published``: scored by the rules of the scores that AlgoPerf has published."""
    blocks: list[Block] = [table_of(_fields(board, hours_by_submission(found)), board.rows, name="Leaderboard")]
    if board.compat:
        blocks.append(
            Paragraph("AlgoPerf's arithmetic: fewest evaluations for fastest trial, trapezoids for the integral.")
        )
    if published:
        blocks.append(Paragraph(against_published(board)))
    blocks += [Paragraph(line, detail=True) for line in (*_details(board, found), *problem_lines(found.problems))]
    if replay is not None:
        blocks.append(replay_table(replay))
        blocks.append(Paragraph(replay.sentence))
    drawn: list[Figure] = figures(board)
    blocks += drawn
    blocks.append(Verdict(board.verdict))
    return Document(
        blocks,
        Provenance(file=found.source),
        result={**board.as_data(), "logs": _about(found), **_replayed(replay)},
        records=_records(board),
        appendix=[pairs_table(board)] if board.pairs else [],
    )


def pairs_table(board: Leaderboard) -> Table:
    """The contestants that can be told apart, by the exact test, and what would tell the others apart."""
    columns = [
        Column("first", align="left", key=True),
        Column("second", align="left", key=True),
        Column("first's mean score\nabove second's", digits=3),
        Column("p after\nHolm", digits=3),
        Column("answer", align="left"),
        Column("studies that\nwould separate them", digits="whole"),
    ]
    rank = {row.contestant: row.rank for row in board.rows}
    rows: list[list[Cell]] = [
        [
            Text(pair.better),
            Text(_worse(pair)),
            Number(abs(pair.difference)),
            Number(pair.p_holm),
            Text(f"{pair.better} is better" if pair.separated else "cannot be told apart"),
            Missing() if pair.separated else number(pair.studies_needed),
        ]
        for pair in sorted(board.pairs, key=lambda pair: (rank[pair.better], rank[_worse(pair)]))
    ]
    return Table("Pairs that can and cannot be told apart", columns, rows)


def _worse(pair: Pair) -> str:
    return pair.second if pair.better == pair.first else pair.first


def replay_table(replay: Replay) -> Table:
    """When it was known which of two is better."""
    columns = [
        Column("studies", key=True, digits="whole"),
        Column("hours", unit="h", digits="thousands"),
        Column("% of\nhours", digits=0),
        Column("% with trials\nended in time", digits=0),
        Column("pairs known,\nexchange test", digits="whole"),
        Column("pairs known,\ncommon noise", digits="whole"),
        Column("the same,\nlook after look", digits="whole"),
        Column("of those that all\nstudies separate", digits="whole"),
    ]
    rows: list[list[Cell]] = [
        [
            Number(stage.studies),
            Number(stage.hours),
            Number(100 * stage.share),
            Number(100 * stage.lockstep_share),
            Number(len(stage.exchange)),
            Number(len(stage.known)),
            Number(len(stage.sequentially)),
            Number(len(set(stage.known) & set(replay.separated)), of=len(replay.separated)),
        ]
        for stage in replay.stages
    ]
    return Table("What fewer studies would have said", columns, rows)


def _replayed(replay: Replay | None) -> dict[str, Any]:
    if replay is None:
        return {}
    told = {"sentence": replay.sentence, "reversed": [dataclasses.asdict(pair) for pair in replay.reversed]}
    return {"replay": {**dataclasses.asdict(replay), **told}}


def _fields(board: Leaderboard, hours: Mapping[str, float]) -> list[Field]:
    fields: list[Field] = [
        *RANK,
        (Column("score", digits=4), lambda row: Number(row.score, row.low, row.high)),
        (Column("95 % interval", align="left", digits=2), interval),
        (Column("group", align="left"), lambda row: Text(row.groups)),
        ABOVE_NEXT,
    ]
    if board.reference:
        fields.append((Column(f"speed-up over\n{board.reference}"), _speedup))
    in_time = Column("workloads\nin time", digits="whole")
    fields.append((in_time, lambda row: Number(row.reached, of=len(board.workloads))))
    training = Column("hours of\ntraining", unit="h", digits="thousands")
    fields.append((training, lambda row: Number(hours.get(row.contestant, 0.0))))
    return fields


def _speedup(row: Row) -> Cell:
    return Missing() if row.speedup is None else Number(row.speedup, digits="factor")


def _records(board: Leaderboard) -> Table:
    """Every number of a contestant, with its seconds on every workload."""
    times = (*board.workloads, *board.variants)
    columns = [Column(name, name=name) for name in (*RECORDS, *(f"seconds:{workload}" for workload in times))]
    rows = [
        [*(_record(getattr(row, name)) for name in RECORDS), *(Number(time) for time in row.times.values())]
        for row in board.rows
    ]
    return Table("", columns, rows)


def _record(value: Any) -> Cell:
    if value is None:
        return Missing()
    return Text(value) if isinstance(value, str) else Number(value)


def _details(board: Leaderboard, found: Logs) -> list[str]:
    lines = []
    if board.pairs:
        apart = sum(pair.separated for pair in board.pairs)
        lines.append(
            "Contestants that share a letter cannot be told apart: "
            f"{apart} of {len(board.pairs)} pairs are separated (exchange test, Holm, α = 2 %)."
        )
    lines.append(
        f"Intervals: bootstrap over {board.studies} studies a cell, indicative: medians of so few cannot say more."
        if board.studies > 1
        else "Intervals: none, a single study says nothing of its spread."
    )
    if board.variants:
        lines.append(f"Held-out variants, a miss of one is a miss of its workload: {', '.join(board.variants)}.")
    lines.append(
        f"Cost: {len(found.trials):,} trials, {found.training_hours:,.0f} hours of training, "
        f"{found.total_hours:,.0f} with evaluations, from {found.files:,} logs."
    )
    return lines


def against_published(board: Leaderboard) -> str:
    """How many of the scores published for v0.5 come out, and which do not."""
    from fallline.score.algoperf import PUBLISHED

    ours = {row.contestant: f"{row.score:.4f}" for row in board.rows if row.contestant in PUBLISHED}
    other = [f"{name} {PUBLISHED[name]:.4f}" for name, score in ours.items() if score != f"{PUBLISHED[name]:.4f}"]
    said = f"{len(ours) - len(other)} of {len(ours)} published scores of v0.5 come out to four decimals"
    return f"{said}; published otherwise: {', '.join(other)}." if other else f"{said}."


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    if not problems:
        return []
    kinds = Counter(problem.kind for problem in problems)
    summary = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    lines = [f"Left out or in part, {summary}:"]
    lines += [f"  {problem.path}: {problem.reason}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"  … and {len(problems) - SHOWN_PROBLEMS} more; --json lists all of them")
    return lines


def _about(found: Logs) -> dict[str, Any]:
    return {
        "source": found.source,
        "files": found.files,
        "trials": len(found.trials),
        "training_hours": found.training_hours,
        "total_hours": found.total_hours,
        "training_hours_by_submission": hours_by_submission(found),
        "problems": [{"kind": p.kind, "path": p.path, "reason": p.reason} for p in found.problems],
    }


def hours_by_submission(found: Logs) -> dict[str, float]:
    hours: dict[str, float] = defaultdict(float)
    for trial in found.trials:
        hours[trial.submission] += trial.training_hours
    return dict(sorted(hours.items()))
