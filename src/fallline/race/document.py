"""A race as a document: its leaderboard on both axes, what it cost, what went wrong, and the verdict."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fallline.document.blocks import Block, Document, Paragraph, Provenance, Snippet, Table, Verdict
from fallline.document.cells import Cell, Column, Missing, Number, Range, Text, number
from fallline.document.numbers import Digits, byte_unit, counted, duration
from fallline.race.clock.pace import SECONDS, STEPS
from fallline.race.figures import curve_figures
from fallline.race.verdict.answer import answer_of
from fallline.race.verdict.race_look import METRIC, SCORE
from fallline.race.verdict.raced import WALL
from fallline.race.verdict.sentences import interval_of, when_it_left
from fallline.score.document import ABOVE_NEXT, CONTESTANT, RANK, Field, interval, table_of
from fallline.score.figures import figures

if TYPE_CHECKING:
    from fallline.race.estimate import Estimate
    from fallline.race.verdict.quality import Quality
    from fallline.race.verdict.summary import Summary
    from fallline.score.leaderboard import Row

EXPECTED = {"reached", "ended", "censored"}
TO_RUN = "to run"
EXPLAINED = {"crashed", "failed", "out of memory"}
"""Ends of trials whose notes say how many there were, and why."""


def document(summary: Summary, path: Path) -> Document:
    several = len(summary.times[STEPS].columns) > 1
    blocks: list[Block] = [Paragraph(line) for line in _head(summary, several)]
    if summary.begun:
        blocks += _of_several(summary) if several else _of_one(summary)
    if not several:
        blocks += [_quality(quality) for quality in summary.quality]
    blocks += _distances(summary)
    if summary.begun:
        blocks += [*_settings(summary), *curve_figures(summary), *figures(summary.board)]
    blocks += [Paragraph(line, detail=True) for line in _details(summary, path)]
    blocks += _answer(summary)
    result = summary.as_data()
    return Document(blocks, Provenance(data_id(result), str(path)), result=result)


def _answer(summary: Summary) -> list[Block]:
    found = answer_of(summary)
    code = [] if found.code is None else [Snippet(found.code, "python")]
    return [*(Verdict(line, headline=line in summary.lines) for line in found.lines), *code]


def plan_document(plan: Estimate) -> Document:
    return Document([Paragraph(line) for line in plan.lines()], result=plan.as_data())


def data_id(result: dict[str, Any]) -> str:
    """Names the times that a conclusion was drawn from: other times, another name."""
    times = [result["clocks"], result["calibration"], result["quality_at_budget"]]
    return hashlib.sha256(json.dumps(times, sort_keys=True).encode()).hexdigest()[:10]


def _head(summary: Summary, numbered: bool) -> list[str]:
    rules = summary.rules
    how = {
        "external": f"{counted(rules.trials, 'quasirandom trial')} a study",
        "self": f"settings chosen from {rules.search} each"
        if rules.search
        else "fixed settings"
        if rules.self_factor == 1
        else f"no tuning, {rules.self_factor:g}× budget",
        "budget": ("equal time" if rules.seconds is None else f"{rules.seconds:g} s of training each")
        + (f", {rules.trials} trials a study" if rules.trials > 1 else ", fixed settings"),
    }[rules.ruleset]
    lines = []
    for place, name in enumerate(summary.times[STEPS].columns, 1):
        about = summary.workloads[name]
        facts, target = about["facts"], about["target"]
        goal = "no target" if target is None else f"target {facts['metric']} {target:.5g}"
        source = f" ({about['target_from']})" if about["target_from"] not in (None, "given") else ""
        prefix = f"{place}  " if numbered else ""
        most = f", at most {rules.most_steps(facts['max_steps'])} steps" if rules.seconds is None else ""
        lines.append(f"{prefix}{name}: {goal}{source}{most}, data: {facts['data']}")
    studies = counted(rules.studies, "study", "studies")
    return [*lines, f"{how}, {'in rounds' if rules.in_rounds else studies}, seed {rules.seed}"]


# ------------------------------------------------------------------ tables


def _of_one(summary: Summary) -> list[Table]:
    rows = summary.board.rows
    found = [table_of(_one_workload(summary), rows, name="Leaderboard")]
    if summary.board.studies > 1:
        found.append(table_of(_spread(summary), rows, name="How far studies differ"))
    return found


def _of_several(summary: Summary) -> list[Table]:
    rows = summary.board.rows
    found = [table_of(_scores(summary), rows, name="Leaderboard"), table_of(_both_axes(summary), rows, name="Costs")]
    for clock in summary.boards:
        if clock != WALL:
            found.append(table_of(_by_workload(summary, clock), rows, f"Median {clock} to target, by workload"))
    if summary.quality:
        found.append(table_of(_qualities(summary), rows, "Median metric at equal time, by workload"))
    return found


GROUP: Field = (Column("group"), lambda row: Text(row.groups))


def _distances(summary: Summary) -> list[Table]:
    """How far each contestant is behind the choice, by the rule that chose it."""
    last = summary.look
    if last is None or last.look.choice is None or len(last.look.standings) < 2:
        return []
    look = last.look
    unit = "%" if look.relative else ""
    of = {METRIC: "Quality at equal time", SCORE: "Score"}.get(last.quantity, f"Time to target in {last.clock}")

    def shown(gap: float) -> float:
        """A contestant is ahead by 8 % if the choice takes 8 % more time, as in the sentences."""
        return math.copysign(100 * math.expm1(abs(gap)), gap) if look.relative else gap

    rows: list[tuple[Cell, ...]] = []
    for standing in look.standings:
        when = standing if standing.racing else when_it_left(summary.looks, standing.contestant)
        ends = interval_of(when, look)
        state = "" if standing.out_at is None else f"out at look {standing.out_at}, after {when.studies} studies"
        if standing.contestant == look.choice:
            rows.append((Text(standing.contestant), Missing(), Missing(), Text("the choice")))
            continue
        rows.append(
            (
                Text(standing.contestant),
                Missing() if when.gap is None else Number(shown(when.gap)),
                Missing() if ends is None else Range(shown(ends[0]), shown(ends[1])),
                Text(summary.unfit.get(standing.contestant, state or "in contention")),
            )
        )
    columns = (
        CONTESTANT[0],
        Column(f"behind {look.choice}{', ' + unit if unit else ''}", unit=unit, digits=1 if unit else 2),
        Column("interval", unit=unit, align="left", digits=1 if unit else 2),
        Column(f"after {counted(look.number, 'look')}", align="left"),
    )
    return [Table(f"{of}: distance to the choice", columns, rows)]


def _settings(summary: Summary) -> list[Table]:
    if not summary.settings:
        return []
    tuned = any(setting.tuned for setting in summary.settings.values())
    title = "Settings that won most studies" if tuned else "Settings"
    columns = [CONTESTANT[0], Column("setting", align="left", prose=True)]
    columns += [Column("studies\nwon", digits="whole")] if tuned else []
    rows: list[list[Cell]] = []
    for row in summary.board.rows:
        setting = summary.settings[row.contestant]
        won: Cell = Number(setting.won, of=setting.studies) if setting.tuned else Missing()
        rows.append([Text(row.contestant), Text(setting.text), *([won] if tuned else [])])
    return [Table(title, columns, rows, detail=True)]


def _median(summary: Summary, clock: str, contestant: str, workload: str) -> float:
    studies = list(summary.times[clock].cell(contestant, workload).values())
    return float(np.median(studies)) if studies else math.inf


def _one_workload(summary: Summary) -> list[Field]:
    (workload,) = summary.times[STEPS].columns

    def median(clock: str) -> Callable[[Row], Cell]:
        return lambda row: number(_median(summary, clock, row.contestant, workload))

    def reached(row: Row) -> Cell:
        studies = summary.times[STEPS].cell(row.contestant, workload)
        return Number(sum(map(math.isfinite, studies.values())), of=len(studies))

    def step_time(row: Row) -> Cell:
        cost = summary.calibration.get((workload, row.contestant))
        return Missing() if cost is None else Number(1e3 * cost.step_seconds, 1e3 * cost.low, 1e3 * cost.high)

    def states(row: Row) -> Cell:
        cost = summary.calibration.get((workload, row.contestant))
        return Missing() if cost is None else Number(cost.state_bytes / unit)

    unit, name = byte_unit(max((cost.state_bytes for cost in summary.calibration.values()), default=0))
    calibrated = SECONDS in summary.boards
    fields: list[Field] = [*RANK]
    fields += [(Column("time to\ntarget", unit="s", digits="seconds"), median(SECONDS))] if calibrated else []
    fields += [(Column("steps to\ntarget", digits="whole"), median(STEPS))]
    fields += [(Column("ms per\nstep", unit="ms", digits="supported"), step_time)] if calibrated else []
    fields += [
        (Column("wall\nclock", unit="s", digits="seconds"), median(WALL)),
        (Column("studies\nreached", digits="whole"), reached),
        (Column("score", digits=2), lambda row: Number(row.score, row.low, row.high)),
    ]
    fields += [GROUP] if summary.tested else []
    fields += [(Column(f"states\n{name}", unit=name, digits="three"), states)] if calibrated else []
    return fields


def _spread(summary: Summary) -> list[Field]:
    """How far a race on one workload could have come out otherwise."""
    (workload,) = summary.times[STEPS].columns
    clock, digits = _clock_digits(summary)

    def over_studies(row: Row) -> Cell:
        studies = summary.times[clock].cell(row.contestant, workload).values()
        return Range(min(studies), max(studies)) if studies else Missing()

    fields: list[Field] = [
        CONTESTANT,
        (Column(f"{clock} to target,\nrange over studies", digits=digits), over_studies),
        (Column("score,\n95 % interval", digits=2), interval),
    ]
    return [*fields, ABOVE_NEXT] if summary.tested else fields


def _clock_digits(summary: Summary) -> tuple[str, Digits]:
    return (SECONDS, "three") if SECONDS in summary.boards else (STEPS, "whole")


def _scores(summary: Summary) -> list[Field]:
    count = len(summary.board.workloads)
    return [
        *RANK,
        (Column("score", digits=4), lambda row: Number(row.score, row.low, row.high)),
        (Column("95 % interval", digits=2), interval),
        *((GROUP, ABOVE_NEXT) if summary.tested else ()),
        (Column("workloads\nin time", digits="whole"), lambda row: Number(row.reached, of=count)),
    ]


def _both_axes(summary: Summary) -> list[Field]:
    """Scores on the other clocks, and what a step costs in time and memory."""

    def score_by(clock: str) -> Callable[[Row], Cell]:
        scores = {row.contestant: row.score for row in summary.boards[clock].rows}
        return lambda row: Number(scores[row.contestant])

    others = [clock for clock in summary.boards if summary.boards[clock] is not summary.board]
    fields: list[Field] = [CONTESTANT, *((Column(f"score by\n{name}", digits=4), score_by(name)) for name in others)]
    if SECONDS in summary.boards:
        reference = summary.reference
        fields += [
            (
                Column(f"step time\n/ {reference}", digits=2),
                lambda row: number(_relative_step_time(summary, row.contestant, reference)),
            ),
            (Column("states /\nweights", digits=2), lambda row: number(_relative_memory(summary, row.contestant))),
        ]
    return fields


def _relative_step_time(summary: Summary, contestant: str, reference: str) -> float | None:
    """The geometric mean over workloads."""
    logs = []
    for workload in summary.workloads:
        own, other = (summary.calibration.get((workload, name)) for name in (contestant, reference))
        if own is not None and other is not None:
            logs.append(math.log(own.step_seconds / other.step_seconds))
    return math.exp(float(np.mean(logs))) if logs else None


def _relative_memory(summary: Summary, contestant: str) -> float | None:
    costs = [cost for (_, name), cost in summary.calibration.items() if name == contestant]
    return sum(c.state_bytes for c in costs) / sum(c.parameter_bytes for c in costs) if costs else None


def _by_workload(summary: Summary, clock: str) -> list[Field]:
    """Medians to target; columns have the numbers that the head gives to workloads."""

    def median(workload: str) -> Callable[[Row], Cell]:
        return lambda row: number(_median(summary, clock, row.contestant, workload))

    digits: Digits = "three" if clock == SECONDS else "whole"
    names = enumerate(summary.times[STEPS].columns, 1)
    return [CONTESTANT, *((Column(str(place), digits=digits), median(name)) for place, name in names)]


def _quality(quality: Quality) -> Table:
    """In an order of its own: the best with the same time need not be the first to the target."""
    columns = (
        CONTESTANT[0],
        Column(f"{quality.metric}\nat equal time", digits="four"),
        Column("range over\nstudies", align="left", digits="four"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name in quality.ranked:
        values = quality.values[name]
        spread: Cell = Range(min(values), max(values)) if values else Missing()
        rows.append((Text(name), number(quality.median(name)), spread))
    return Table("", columns, rows, name=f"{quality.workload}: {quality.metric} at equal time")


def _qualities(summary: Summary) -> list[Field]:
    def median(quality: Quality) -> Callable[[Row], Cell]:
        return lambda row: number(quality.median(row.contestant))

    numbers = {name: str(place) for place, name in enumerate(summary.times[STEPS].columns, 1)}
    found = ((Column(numbers[quality.workload], digits="four"), median(quality)) for quality in summary.quality)
    return [CONTESTANT, *found]


# ------------------------------------------------------------------ below the tables


def _speedups(summary: Summary) -> list[str]:
    """One line; of one workload the times to target say it."""
    board = summary.board
    known = [(row.contestant, row.speedup) for row in board.rows if row.contestant != board.reference]
    text = ", ".join(f"{name} {speedup:.2f}×" for name, speedup in known if speedup is not None)
    return [f"Speed-up over {board.reference}, geometric mean, a miss counted as the budget: {text}."] if text else []


def _details(summary: Summary, path: Path) -> list[str]:
    lines = []
    if SECONDS in summary.boards and summary.begun:
        lines.append("Time to target: median over studies of steps × seconds per step, measured apart on one thread.")
    if summary.board.studies > 1:
        over = f"{summary.board.studies} studies" + (" and errors of step times" if SECONDS in summary.boards else "")
        which = "Intervals and P(above next)" if summary.tested else "Intervals of scores"
        lines.append(f"{which}: bootstrap over {over}, indicative only.")
    first = summary.board.rows[0].contestant
    if summary.choice not in (None, first):
        lines.append(
            f"By medians over studies {first} is first; the choice is by means of logarithms, as its bound is."
        )
    if summary.board.pairs and summary.tested and summary.begun:
        lines.append("Contestants that share a group letter cannot be told apart, by an exact test.")
    if len(summary.board.workloads) > 1:
        lines += _speedups(summary)
    if summary.warning:
        lines.append(summary.warning)
    for name, counts in summary.statuses.items():
        # If a race has ended, trials of an incomplete round may be left: the command for them is given below.
        told = EXPECTED | EXPLAINED | ({TO_RUN} if summary.ended_by is not None else set())
        odd = {status: count for status, count in counts.items() if status not in told}
        if odd:
            lines.append(f"{name}: " + ", ".join(f"{count} {status}" for status, count in odd.items()))
    lines += list(summary.notes)
    hours = f"{duration(summary.training_hours)} of training, {duration(summary.evaluation_hours)} of evaluation"
    saved = f", up to {duration(summary.saved_hours)} saved by ending trials early" if summary.saved_hours else ""
    return [*lines, f"Cost: {hours}{saved}. Results: {path}"]
