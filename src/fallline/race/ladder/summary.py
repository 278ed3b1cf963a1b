"""The ladder of a finished race: advantages by rung, their trends, and contestants of which nothing can be said."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fallline.race.clock.pace import SECONDS, STEPS
from fallline.race.ladder.noise import advantages
from fallline.race.ladder.rungs import axis_of, rungs_of
from fallline.race.ladder.trend import Advantages, Guess, Trend, farthest, trends
from fallline.race.plan import BUDGET
from fallline.race.verdict.summary import Summary
from fallline.workloads.workload import LOWER

TIME = "time to target"
NEAR = 1.2
"""Rungs ahead that are closer together than this factor are one."""


@dataclasses.dataclass(frozen=True)
class Climb:
    """A race on a ladder, seen from the reference."""

    axis: str
    rungs: tuple[float, ...]
    workloads: tuple[str, ...]
    """The workload of each rung."""
    reference: str
    measure: str
    """``TIME``: advantages are logarithms of ratios of times to target; otherwise differences of this metric."""
    clock: str
    known: Advantages
    """Contestants whose trend is known; rungs on which the reference has a value."""
    trends: tuple[Trend, ...]
    ahead: tuple[float, ...]
    """Rungs beyond the last, as far as a trend is extended."""
    unknown: Mapping[str, str]
    """Contestant → why nothing can be said of it."""
    clock_share: float
    """The part of the noise that errors of step times make, which more studies do not lower."""
    missed: Mapping[tuple[str, str], tuple[int, int]]
    """(contestant, workload) → in how many of how many studies it missed the target, where it did."""

    def measured(self, trend: Trend) -> list[tuple[float, Guess]]:
        """The rungs on which a contestant was measured, with its advantage."""
        row = self.known.values[self.known.contestants.index(trend.contestant)]
        guesses = zip(self.known.rungs, trend.rungs, row, strict=True)
        return [(rung, guess) for rung, guess, value in guesses if math.isfinite(value)]

    def as_data(self) -> dict[str, Any]:
        observed = {name: row.tolist() for name, row in zip(self.known.contestants, self.known.values, strict=True)}
        return {
            "axis": self.axis,
            "rungs": list(self.known.rungs),
            "reference": self.reference,
            "measure": self.measure,
            "clock": self.clock,
            "observed": {name: [None if math.isnan(v) else v for v in row] for name, row in observed.items()},
            "trends": [dataclasses.asdict(trend) for trend in self.trends],
            "ahead": list(self.ahead),
            "unknown": dict(self.unknown),
            "clock_share": self.clock_share,
            "missed": [[*key, *counts] for key, counts in self.missed.items()],
        }


def climb(summary: Summary) -> Climb | None:
    """None of a race that is no ladder."""
    rungs = rungs_of(summary.workloads)
    if rungs is None:
        return None
    by_quality = summary.rules.ruleset == BUDGET
    missed = {} if by_quality else _missed(summary, tuple(rungs))
    values = _qualities(summary, tuple(rungs)) if by_quality else _log_times(summary, tuple(rungs))
    kept = [k for k, study in enumerate(values[summary.reference]) if study]
    names, sizes = [tuple(rungs)[k] for k in kept], [tuple(rungs.values())[k] for k in kept]
    left = {name: [row[k] for k in kept] for name, row in values.items()}
    unknown = {
        name: reason
        for name, row in left.items()
        if name != summary.reference and (reason := _obstacle(row, tuple(rungs), kept, summary.reference)) is not None
    }
    compared = {name: row for name, row in left.items() if name not in unknown}
    found = Advantages((), tuple(sizes), np.empty((0, len(sizes))))
    ahead: tuple[float, ...] = ()
    added = None
    if len(compared) > 1:
        least, added = (None, None) if by_quality else (_grid(summary, names), _pace(summary, names))
        unsteady = {name for name, _ in missed}
        found = advantages(compared, summary.reference, sizes, least=least, added=added, unsteady=unsteady)
        ahead = beyond(sizes)
    return Climb(
        axis=axis_of(summary.workloads.values()),
        rungs=tuple(rungs.values()),
        workloads=tuple(rungs),
        reference=summary.reference,
        measure=summary.quality[0].metric if by_quality else TIME,
        clock=SECONDS if SECONDS in summary.boards else STEPS,
        known=found,
        trends=tuple(trends(found, ahead)) if len(compared) > 1 else (),
        ahead=ahead,
        unknown=unknown,
        clock_share=_share(added, found),
        missed=missed,
    )


def _share(added: Sequence[float] | None, found: Advantages) -> float:
    if added is None or found.noise is None:
        return 0.0
    return float(np.sum(added) / max(np.trace(found.noise), 1e-300))


def beyond(sizes: Sequence[float]) -> tuple[float, ...]:
    """A doubling, if the ladder carries so far, and the farthest rung that it carries to.

    >>> beyond([0.5, 1, 2]), beyond([1, 2, 4, 8, 16])
    ((4.0,), (32.0, 64.0))
    """
    last = farthest(sizes)
    double = 2.0 * sizes[-1]
    return (double, last) if last > NEAR * double else (last,)


def _obstacle(row: Sequence[Sequence[float]], rungs: Sequence[str], kept: Sequence[int], reference: str) -> str | None:
    """Why a contestant's trend cannot be known."""
    if len(kept) < 2:
        return f"{reference}, with which it is compared, has a result on fewer than two rungs"
    missing = [rungs[k] for k, studies in zip(kept, row, strict=True) if not studies]
    if row[-1] and len(kept) - len(missing) > 1:
        return None
    return f"it has no result in most studies of {', '.join(missing)}"


def _log_times(summary: Summary, workloads: Sequence[str]) -> dict[str, list[list[float]]]:
    """Contestant → logarithms of times by rung and study; empty where most studies missed the target.

    A single miss counts as the budget, which is less than it would have taken.
    """
    clock = SECONDS if SECONDS in summary.times else STEPS
    found: dict[str, list[list[float]]] = {name: [] for name in summary.contestants}
    for name, workload in itertools.product(summary.contestants, workloads):
        cell = summary.times[clock].cell(name, workload)
        reached = [time for time in cell.values() if math.isfinite(time)]
        if 2 * len(reached) <= len(cell):
            found[name].append([])
            continue
        most = _budget(summary, clock, name, workload)
        found[name].append([math.log(min(cell[study], most)) for study in sorted(cell)])
    return found


def _budget(summary: Summary, clock: str, name: str, workload: str) -> float:
    """The budget of a contestant that has reached a target on that clock."""
    steps = summary.rules.most_steps(summary.workloads[workload]["facts"]["max_steps"])
    return steps * (summary.calibration[workload, name].step_seconds if clock == SECONDS else 1.0)


def _missed(summary: Summary, workloads: Sequence[str]) -> dict[tuple[str, str], tuple[int, int]]:
    found = {}
    for name, workload in itertools.product(summary.contestants, workloads):
        studies = summary.times[STEPS].cell(name, workload).values()
        count = sum(map(math.isinf, studies))
        if count:
            found[name, workload] = (count, len(studies))
    return found


def _qualities(summary: Summary, workloads: Sequence[str]) -> dict[str, list[list[float]]]:
    """Contestant → the metric at the end, by rung and study, as a number of which less is better."""
    by_workload = {quality.workload: quality for quality in summary.quality}
    found: dict[str, list[list[float]]] = {name: [] for name in summary.contestants}
    for quality in (by_workload[workload] for workload in workloads):
        sign = 1.0 if quality.direction == LOWER else -1.0
        for name, rows in found.items():
            values = quality.values[name]
            rows.append([sign * value for value in values] if all(map(math.isfinite, values)) else [])
    return found


def _grid(summary: Summary, workloads: Sequence[str]) -> list[float]:
    """The variance that evaluations at fixed steps alone give to the logarithm of a time."""
    table, found = summary.times[STEPS], []
    for workload in workloads:
        steps = [t for name in summary.contestants for t in table.cell(name, workload).values() if math.isfinite(t)]
        found.append((summary.workloads[workload]["facts"]["eval_every"] / float(np.median(steps))) ** 2 / 12)
    return found


def _pace(summary: Summary, workloads: Sequence[str]) -> list[float]:
    if SECONDS not in summary.times:
        return [0.0] * len(workloads)
    table = summary.times[SECONDS]
    return [float(np.mean([table.pace_error(c, w) ** 2 for c in summary.contestants])) for w in workloads]
