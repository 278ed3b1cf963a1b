"""``fallline score``: a leaderboard from AlgoPerf's own log folders, with the intervals they do not have."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.output import Json, Out, check_out, emit
from fallline.cli.rows_table import CONTESTANT, RANK, Column, show_rows

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.score.leaderboard import Leaderboard, Row
    from fallline.score.logs import Logs, Problem

SHOWN_PROBLEMS = 5
LEFT = (CONTESTANT, "95 % interval", "group")
"""Columns of text."""
COLUMNS = ("rank", "contestant", "score", "low", "high", "groups", "above_next", "speedup", "reached")


def score(
    logs: Annotated[
        Path, typer.Argument(metavar="DIR|ARCHIVE", help="AlgoPerf's log folder, or a tar archive of it (.tar.xz).")
    ],
    compat: Annotated[
        bool,
        typer.Option("--algoperf-compat", help="AlgoPerf's own arithmetic, with its defects: the published numbers."),
    ] = False,
    held_out: Annotated[
        bool, typer.Option("--held-out/--no-held-out", help="The rules of v0.5 on held-out workloads; off since v0.6.")
    ] = True,
    self_tuning: Annotated[
        bool, typer.Option("--self-tuning", help="Logs of self-tuning: budgets are 3 times as long, 1.5 since v0.6.")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="NAME", help="What speed-ups refer to; `baseline` if it is there."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write both figures there, as PNG and SVG.")
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the leaderboard as CSV.")] = False,
    as_md: Annotated[bool, typer.Option("--md", help="Print the leaderboard as a Markdown table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the leaderboard and the verdict only.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")] = 0,
    out: Out = None,
) -> None:
    """Score AlgoPerf's logs: profiles, scores with intervals, and who can be told apart.

    Default: the fastest trial of a study is the one with the smallest time, and the integral is exact.
    """
    check_out(out)
    if sum((as_json, as_csv, as_md)) > 1:
        raise BadInput("--json, --csv and --md exclude each other; take one")
    check_figures(figures)
    from fallline.score.algoperf import MISS_SECONDS, budgets
    from fallline.score.leaderboard import leaderboard
    from fallline.score.logs import NoLogs, read
    from fallline.score.times import from_logs

    try:
        found = read(logs)
    except NoLogs as error:
        raise BadInput(str(error)) from None
    table = from_logs(found.trials, held_out=held_out, compat=compat)
    if not table.workloads:
        ran = ", ".join(sorted({trial.workload for trial in found.trials}))
        raise BadInput(
            f"{logs}: nothing to score: its logs are of variants alone ({ran}), and a variant counts only beside the "
            "workload it belongs to"
        )
    reference = _reference(reference, table.contestants)
    seconds = budgets(held_out=held_out, self_tuning=self_tuning)
    allowed = {(name, w): seconds[w] + MISS_SECONDS for name in table.contestants for w in table.workloads}
    board = leaderboard(table, compat=compat, reference=reference, allowed=allowed, seed=seed)
    if figures is not None:
        draw_figures(board, figures, quiet)
    if as_csv or as_md:
        text = csv_text(board) if as_csv else markdown(board)
        emit(None, lambda console: console.print(text, soft_wrap=True, end=""), as_json=False, out=out)
        _report(found.problems, quiet)
        return
    data = {**board.as_data(), "logs": _about(found)} if as_json else None
    published = compat and held_out and not self_tuning
    emit(data, lambda console: show(console, board, found, published, quiet=quiet), as_json=as_json, out=out)
    if as_json:
        _report(found.problems, quiet)


def _reference(given: str | None, contestants: Sequence[str]) -> str | None:
    if given is not None and given not in contestants:
        raise BadInput(f"--reference: there is no submission {given!r}; there are {', '.join(contestants)}")
    return given or ("baseline" if "baseline" in contestants else None)


def check_figures(folder: Path | None) -> None:
    """Refuses, before any work is done for them, figures that could not be written."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--figures {folder}: this is a file; name a folder")
    if importlib.util.find_spec("matplotlib") is None:
        from fallline.score.figures import UNAVAILABLE

        raise BadInput(f"--figures {folder}: {UNAVAILABLE}")


def draw_figures(board: Leaderboard, folder: Path, quiet: bool) -> None:
    from fallline.score.figures import FiguresUnavailable, draw

    try:
        written = draw(board, folder)
    except FiguresUnavailable as error:
        raise BadInput(f"--figures {folder}: {error}") from None
    except OSError as error:
        raise BadInput(f"--figures {folder}: {error.strerror}; name another folder") from None
    if not quiet:
        typer.echo(f"Figures: {', '.join(map(str, written))}", err=True)


def _about(found: Logs) -> dict[str, Any]:
    hours = hours_by_submission(found)
    return {
        "source": found.source,
        "files": found.files,
        "trials": len(found.trials),
        "training_hours": found.training_hours,
        "total_hours": found.total_hours,
        "training_hours_by_submission": hours,
        "problems": [{"kind": p.kind, "path": p.path, "reason": p.reason} for p in found.problems],
    }


def hours_by_submission(found: Logs) -> dict[str, float]:
    hours: dict[str, float] = defaultdict(float)
    for trial in found.trials:
        hours[trial.submission] += trial.training_hours
    return dict(sorted(hours.items()))


# ------------------------------------------------------------------ text


def show(console: Console, board: Leaderboard, found: Logs, published: bool, *, quiet: bool) -> None:
    show_rows(console, columns(board, hours_by_submission(found)), board.rows, left=LEFT)
    if board.compat:
        console.print("AlgoPerf's arithmetic: fewest evaluations for fastest trial, trapezoids for the integral.")
    if published:
        console.print(against_published(board))
    if board.compat:
        console.print()
    if not quiet:
        for line in (*details(board, found), *problem_lines(found.problems)):
            console.print(line)
        console.print()
    console.print(board.verdict)


def columns(board: Leaderboard, hours: Mapping[str, float]) -> list[Column]:
    made: list[Column] = [
        *RANK,
        ("score", lambda row: _cells(row)[0]),
        ("95 % interval", lambda row: _cells(row)[1]),
        ("group", lambda row: _cells(row)[2]),
        ("P(above\nnext)", lambda row: _cells(row)[3]),
    ]
    if board.reference:
        made.append((f"speed-up over\n{board.reference}", _speedup))
    made.append(("workloads\nin time", lambda row: f"{row.reached} of {len(board.workloads)}"))
    made.append(("hours of\ntraining", lambda row: f"{hours.get(row.contestant, 0.0):,.0f}"))
    return made


def _cells(row: Row) -> list[str]:
    chance = "–" if row.above_next is None else f"{row.above_next:.2f}"
    return [f"{row.score:.4f}", row.interval, row.groups, chance]


def _speedup(row: Row) -> str:
    return "–" if row.speedup is None else f"{row.speedup:.2f}×"


def details(board: Leaderboard, found: Logs) -> list[str]:
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


def _report(problems: Sequence[Problem], quiet: bool) -> None:
    for line in [] if quiet else problem_lines(problems):
        typer.echo(line, err=True)


def csv_text(board: Leaderboard) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"seconds:{name}" for name in (*board.workloads, *board.variants))])
    for row in board.rows:
        own = ["" if (value := getattr(row, name)) is None else value for name in COLUMNS]
        writer.writerow([*own, *row.times.values()])
    return text.getvalue()


def markdown(board: Leaderboard) -> str:
    head = ["#", "contestant", "score", "95 % interval", "group", "P(above next)", "workloads in time"]
    lines = ["| " + " | ".join(head) + " |", "|---:|---|---:|---|---|---:|---:|"]
    for row in board.rows:
        reached = f"{row.reached} of {len(board.workloads)}"
        lines.append("| " + " | ".join([str(row.rank), row.contestant, *_cells(row), reached]) + " |")
    return "\n".join([*lines, "", board.verdict, ""])
