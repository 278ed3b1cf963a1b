"""A race as text: leaderboard on both axes, costs, what went wrong, and the verdict."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fallline.race.summary import Summary


def show_race(console: Console, summary: Summary, path: Path, *, quiet: bool) -> None:
    for line in _head(summary):
        console.print(line)
    console.print()
    if len(summary.times["steps"].columns) == 1:
        console.print(_one_workload(summary))
    else:
        console.print(_many_workloads(summary))
        console.print()
        console.print(_by_workload(summary))
    console.print()
    if not quiet:
        for line in _details(summary, path):
            console.print(line)
        console.print()
    for quality in summary.quality:
        console.print(quality.verdict)
    console.print(summary.verdict)
    if summary.advice:
        console.print(summary.advice)


def _head(summary: Summary) -> list[str]:
    rules = summary.rules
    how = {
        "external": f"{rules.trials} quasirandom trials a study",
        "self": f"no tuning, {rules.self_factor:g}× budget",
        "budget": "equal time" + (f", {rules.trials} trials a study" if rules.trials > 1 else ", fixed settings"),
    }[rules.ruleset]
    lines = []
    for name, about in summary.workloads.items():
        facts, target = about["facts"], about["target"]
        goal = "no target" if target is None else f"target {facts['metric']} {target:.5g}"
        source = f" ({about['target_from']})" if about["target_from"] not in (None, "given") else ""
        lines.append(f"{name}: {goal}{source}, at most {facts['max_steps']} steps, data: {facts['data']}")
    lines.append(f"{how}, {rules.studies} {'study' if rules.studies == 1 else 'studies'}, seed {rules.seed}")
    return lines


def _seconds(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.3g} s" if value < 999.5 else f"{value / 3600:.2f} h"


def _table(*columns: str) -> Table:
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index == 1 else "right", no_wrap=index != 1, overflow="fold")
    return made


def _one_workload(summary: Summary) -> Table:
    (workload,) = summary.times["steps"].columns
    calibrated = "seconds" in summary.boards
    columns = [
        "#",
        "contestant",
        "time to\ntarget",
        "steps to\ntarget",
        "ms per\nstep",
        "wall\nclock",
        "studies\nreached",
    ]
    columns = columns if calibrated else [c for c in columns if not c.startswith(("time", "ms"))]
    columns += ["score", "group"]
    columns += ["states\nMB"] if calibrated else []
    columns += [f"{quality.metric}\nat equal time" for quality in summary.quality]
    table = _table(*columns)
    for row in summary.board.rows:
        name = row.contestant
        cells = [str(row.rank), name]
        cell = list(summary.times["steps"].cell(name, workload).values())
        reached = sum(map(math.isfinite, cell))
        steps = np.median(cell) if cell else math.inf
        wall = list(summary.times["wall"].cell(name, workload).values())
        if calibrated:
            cost = summary.calibration[workload, name]
            cells += [_seconds(row.times[workload]), _steps(steps), f"{1e3 * cost.step_seconds:.3g}"]
        else:
            cells += [_steps(steps)]
        cells += [_seconds(float(np.median(wall)) if wall else math.inf), f"{reached} of {len(cell)}"]
        cells += [f"{row.score:.2f}", row.groups]
        cells += [f"{cost.state_bytes / 1e6:.2f}"] if calibrated else []
        for quality in summary.quality:
            values = quality.values[name]
            cells += [f"{quality.median(name):.4g} ({min(values):.4g}–{max(values):.4g})" if values else "–"]
        table.add_row(*cells)
    return table


def _steps(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "–"


def _many_workloads(summary: Summary) -> Table:
    others = [clock for clock in summary.boards if summary.boards[clock] is not summary.board]
    head = ["#", "contestant", "score", "95 % interval", "group", "workloads\nin time"]
    table = _table(*head, *(f"score by\n{clock}" for clock in others))
    for row in summary.board.rows:
        scores = [
            next(r.score for r in summary.boards[clock].rows if r.contestant == row.contestant) for clock in others
        ]
        table.add_row(
            str(row.rank),
            row.contestant,
            f"{row.score:.4f}",
            f"{row.low:.2f} to {row.high:.2f}",
            row.groups,
            f"{row.reached} of {len(summary.board.workloads)}",
            *(f"{score:.4f}" for score in scores),
        )
    return table


def _by_workload(summary: Summary) -> Table:
    """Median time and steps to target."""
    names = summary.times["steps"].columns
    table = _table("", "contestant", *(name.replace("_", "\n") for name in names))
    calibrated = "seconds" in summary.boards
    for row in summary.board.rows:
        cells = []
        for name in names:
            studies = list(summary.times["steps"].cell(row.contestant, name).values())
            steps = float(np.median(studies)) if studies else math.inf
            cells.append(f"{_seconds(row.times[name])} / {_steps(steps)}" if calibrated else _steps(steps))
        table.add_row("", row.contestant, *cells)
    return table


def _details(summary: Summary, path: Path) -> list[str]:
    lines = []
    if "seconds" in summary.boards:
        lines.append("Time to target: median over studies of steps × seconds per step, measured apart on one thread.")
    lines.append("Contestants that share a group letter cannot be told apart.")
    if summary.warning:
        lines.append(summary.warning)
    for name, counts in summary.statuses.items():
        odd = {k: v for k, v in counts.items() if k not in ("reached", "ended", "censored")}
        if odd:
            lines.append(f"{name}: " + ", ".join(f"{count} {status}" for status, count in odd.items()))
    lines += list(summary.notes)
    hours = f"{_hours(summary.training_hours)} of training, {_hours(summary.evaluation_hours)} of evaluation"
    saved = f", {_hours(summary.saved_hours)} saved by ending trials early" if summary.saved_hours else ""
    lines.append(f"Cost: {hours}{saved}. Results: {path}")
    return lines


def _hours(value: float) -> str:
    return (
        f"{value:.2f} hours"
        if value >= 0.995
        else f"{60 * value:.1f} minutes"
        if value >= 0.015
        else f"{3600 * value:.0f} s"
    )
