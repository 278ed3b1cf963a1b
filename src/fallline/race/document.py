"""A race as text: leaderboard on both axes, costs, what went wrong, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fallline.cli.rows_table import CONTESTANT, RANK, Column, show_rows
from fallline.race.estimate import duration
from fallline.race.summary import SECONDS, STEPS, WALL
from fallline.step.layout import show_fitted

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.race.quality import Quality
    from fallline.race.summary import Summary
    from fallline.score.leaderboard import Row

NONE = "–"
EXPECTED = {"reached", "ended", "censored"}
EXPLAINED = {"crashed", "failed", "out of memory"}
"""Ends of trials whose notes say how many there were, and why."""


def show_race(console: Console, summary: Summary, path: Path, *, quiet: bool) -> None:
    several = len(summary.times[STEPS].columns) > 1
    for line in _head(summary, several):
        console.print(line)
    console.print()
    for title, columns in _of_several(summary) if several else _of_one(summary):
        if title:
            console.print(title)
        show_rows(console, columns, summary.board.rows)
    if not several:
        for quality in summary.quality:
            _show_quality(console, quality)
    if not quiet:
        for line in _details(summary, path):
            console.print(line)
        console.print()
    for quality in summary.quality:
        console.print(quality.verdict)
    console.print(summary.verdict)


def _head(summary: Summary, numbered: bool) -> list[str]:
    rules = summary.rules
    how = {
        "external": f"{rules.trials} quasirandom {'trial' if rules.trials == 1 else 'trials'} a study",
        "self": f"no tuning, {rules.self_factor:g}× budget",
        "budget": ("equal time" if rules.seconds is None else f"{rules.seconds:g} s of training each")
        + (f", {rules.trials} trials a study" if rules.trials > 1 else ", fixed settings"),
    }[rules.ruleset]
    lines = []
    for number, name in enumerate(summary.times[STEPS].columns, 1):
        about = summary.workloads[name]
        facts, target = about["facts"], about["target"]
        goal = "no target" if target is None else f"target {facts['metric']} {target:.5g}"
        source = f" ({about['target_from']})" if about["target_from"] not in (None, "given") else ""
        prefix = f"{number}  " if numbered else ""
        most = f", at most {rules.most_steps(facts['max_steps'])} steps" if rules.seconds is None else ""
        lines.append(f"{prefix}{name}: {goal}{source}{most}, data: {facts['data']}")
    return [*lines, f"{how}, {rules.studies} {'study' if rules.studies == 1 else 'studies'}, seed {rules.seed}"]


# ------------------------------------------------------------------ cells


def _seconds(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    return (
        f"{_three(value)} s" if value < 999.5 else f"{value / 60:.0f} min" if value < 36e3 else f"{value / 3600:.1f} h"
    )


def _three(value: float) -> str:
    """Three digits, zeros kept, so that columns are as wide as what is known.

    >>> _three(7.0), _three(43.21), _three(0.0512)
    ('7.00', '43.2', '0.0512')
    """
    if value <= 0.0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value * 1.0005)))}f}"


def _steps(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else NONE


def _value(value: float) -> str:
    return f"{value:#.4g}" if math.isfinite(value) else NONE


def _median(summary: Summary, clock: str, contestant: str, workload: str) -> float:
    studies = list(summary.times[clock].cell(contestant, workload).values())
    return float(np.median(studies)) if studies else math.inf


def _step_time(summary: Summary, workload: str, contestant: str) -> str:
    from fallline.measure.stats import Estimate

    cost = summary.calibration.get((workload, contestant))
    if cost is None:
        return NONE
    return Estimate(1e3 * cost.step_seconds, 1e3 * cost.low, 1e3 * cost.high, 1).short()


# ------------------------------------------------------------------ tables


Table = tuple[str, Sequence[Column]]
"""A title, or none, and columns."""


def _of_one(summary: Summary) -> list[Table]:
    found: list[Table] = [("", _one_workload(summary))]
    return [*found, ("", _spread(summary))] if summary.board.studies > 1 else found


def _of_several(summary: Summary) -> list[Table]:
    found: list[Table] = [("", _scores(summary)), ("", _both_axes(summary))]
    for clock in summary.boards:
        if clock != WALL:
            found.append((f"Median {clock} to target, by workload", _by_workload(summary, clock)))
    if summary.quality:
        found.append(("Median metric at equal time, by workload", _qualities(summary)))
    return found


_ABOVE_NEXT = ("P(above\nnext)", lambda row: NONE if row.above_next is None else f"{row.above_next:.2f}")


def _one_workload(summary: Summary) -> list[Column]:
    (workload,) = summary.times[STEPS].columns

    def median(clock: str) -> Callable[[Row], float]:
        return lambda row: _median(summary, clock, row.contestant, workload)

    def reached(row: Row) -> str:
        studies = summary.times[STEPS].cell(row.contestant, workload)
        return f"{sum(map(math.isfinite, studies.values()))} of {len(studies)}"

    def states(row: Row) -> str:
        cost = summary.calibration.get((workload, row.contestant))
        return NONE if cost is None else _three(cost.state_bytes / unit)

    largest = max((cost.state_bytes for cost in summary.calibration.values()), default=0)
    unit, name = (1e6, "MB") if largest >= 1e5 else (1e3, "kB")
    time, steps, wall = median(SECONDS), median(STEPS), median(WALL)
    calibrated = SECONDS in summary.boards
    columns = [*RANK]
    columns += [("time to\ntarget", lambda row: _seconds(time(row)))] if calibrated else []
    columns += [("steps to\ntarget", lambda row: _steps(steps(row)))]
    columns += [("ms per\nstep", lambda row: _step_time(summary, workload, row.contestant))] if calibrated else []
    columns += [
        ("wall\nclock", lambda row: _seconds(wall(row))),
        ("studies\nreached", reached),
        ("score", lambda row: f"{row.score:.2f}"),
        ("group", lambda row: row.groups),
    ]
    columns += [(f"states\n{name}", states)] if calibrated else []
    return columns


def _spread(summary: Summary) -> list[Column]:
    """How far a race on one workload could have come out otherwise."""
    (workload,) = summary.times[STEPS].columns
    clock, text = (SECONDS, _three) if SECONDS in summary.boards else (STEPS, _steps)

    def over_studies(row: Row) -> str:
        studies = summary.times[clock].cell(row.contestant, workload).values()
        ends = [text(time) if math.isfinite(time) else NONE for time in (min(studies), max(studies))] if studies else []
        return NONE if set(ends) <= {NONE} else " to ".join(ends)

    return [
        RANK[1],
        (f"{clock} to target,\nrange over studies", over_studies),
        ("score,\n95 % interval", lambda row: row.interval),
        _ABOVE_NEXT,
    ]


def _scores(summary: Summary) -> list[Column]:
    return [
        *RANK,
        ("score", lambda row: f"{row.score:.4f}"),
        ("95 % interval", lambda row: row.interval),
        ("group", lambda row: row.groups),
        _ABOVE_NEXT,
        ("workloads\nin time", lambda row: f"{row.reached} of {len(summary.board.workloads)}"),
    ]


def _both_axes(summary: Summary) -> list[Column]:
    """Scores on the other clocks, and what a step costs in time and memory."""

    def score_by(clock: str) -> Callable[[Row], str]:
        scores = {row.contestant: row.score for row in summary.boards[clock].rows}
        return lambda row: f"{scores[row.contestant]:.4f}"

    others = [clock for clock in summary.boards if summary.boards[clock] is not summary.board]
    columns = [RANK[1], *((f"score by\n{clock}", score_by(clock)) for clock in others)]
    if SECONDS in summary.boards:
        reference = summary.reference
        columns += [
            (f"step time\n/ {reference}", lambda row: _relative_step_time(summary, row.contestant, reference)),
            ("states /\nweights", lambda row: _relative_memory(summary, row.contestant)),
        ]
    return columns


def _relative_step_time(summary: Summary, contestant: str, reference: str) -> str:
    """The geometric mean over workloads."""
    logs = []
    for workload in summary.workloads:
        own, other = (summary.calibration.get((workload, name)) for name in (contestant, reference))
        if own is not None and other is not None:
            logs.append(math.log(own.step_seconds / other.step_seconds))
    return f"{math.exp(float(np.mean(logs))):.2f}" if logs else NONE


def _relative_memory(summary: Summary, contestant: str) -> str:
    costs = [cost for (_, name), cost in summary.calibration.items() if name == contestant]
    return f"{sum(c.state_bytes for c in costs) / sum(c.parameter_bytes for c in costs):.2f}" if costs else NONE


def _by_workload(summary: Summary, clock: str) -> list[Column]:
    """Medians to target; columns have the numbers that the head gives to workloads."""

    def median(workload: str) -> Callable[[Row], str]:
        text = _three if clock == SECONDS else _steps
        return lambda row: NONE if math.isinf(m := _median(summary, clock, row.contestant, workload)) else text(m)

    names = enumerate(summary.times[STEPS].columns, 1)
    return [RANK[1], *((str(number), median(name)) for number, name in names)]


def _show_quality(console: Console, quality: Quality) -> None:
    """In an order of its own: the best with the same time need not be the first to the target."""
    rows = []
    for name in quality.ranked:
        values = quality.values[name]
        spread = f"{_value(min(values))} to {_value(max(values))}" if values else NONE
        rows.append([name, _value(quality.median(name)), spread])
    show_fitted(console, [CONTESTANT, f"{quality.metric}\nat equal time", "range over\nstudies"], rows, {0, 2}, 1)


def _qualities(summary: Summary) -> list[Column]:
    def median(quality: Quality) -> Callable[[Row], str]:
        return lambda row: _value(quality.median(row.contestant))

    numbers = {name: str(number) for number, name in enumerate(summary.times[STEPS].columns, 1)}
    return [RANK[1], *((numbers[quality.workload], median(quality)) for quality in summary.quality)]


# ------------------------------------------------------------------ below the tables


def _speedups(summary: Summary) -> list[str]:
    """One line; of one workload the times to target say it."""
    board = summary.board
    known = [(row.contestant, row.speedup) for row in board.rows if row.contestant != board.reference]
    text = ", ".join(f"{name} {speedup:.2f}×" for name, speedup in known if speedup is not None)
    return [f"Speed-up over {board.reference}, geometric mean, a miss counted as the budget: {text}."] if text else []


def _details(summary: Summary, path: Path) -> list[str]:
    lines = []
    if SECONDS in summary.boards:
        lines.append("Time to target: median over studies of steps × seconds per step, measured apart on one thread.")
    if summary.board.studies > 1:
        over = f"{summary.board.studies} studies" + (" and errors of step times" if SECONDS in summary.boards else "")
        lines.append(f"Intervals and P(above next): bootstrap over {over}, indicative only.")
    if summary.board.pairs:
        lines.append("Contestants that share a group letter cannot be told apart, by an exact test.")
    if len(summary.board.workloads) > 1:
        lines += _speedups(summary)
    if summary.warning:
        lines.append(summary.warning)
    for name, counts in summary.statuses.items():
        odd = {status: count for status, count in counts.items() if status not in EXPECTED | EXPLAINED}
        if odd:
            lines.append(f"{name}: " + ", ".join(f"{count} {status}" for status, count in odd.items()))
    lines += list(summary.notes)
    hours = f"{duration(summary.training_hours)} of training, {duration(summary.evaluation_hours)} of evaluation"
    saved = f", up to {duration(summary.saved_hours)} saved by ending trials early" if summary.saved_hours else ""
    return [*lines, f"Cost: {hours}{saved}. Results: {path}"]
