"""A stored race as numbers: the trials that count, when each crossed its target, and times to target by clock."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fallline.race.clock.pace import SECONDS, STEPS, Errors, errors_by_workload, errors_of_cells
from fallline.race.clock.step_clock import StepClock
from fallline.race.plan import BUDGET, STEPS_CLOCK, Rules
from fallline.race.results import Calibrated, Results, Row
from fallline.race.verdict.crossing import Reached, reached
from fallline.race.verdict.misses import Curves
from fallline.score.times import StudyTimes
from fallline.workloads.loading import HELD_OUT

WALL = "wall"
Limits = Mapping[str, Mapping[tuple[str, str], float]]
"""Clock → (contestant, workload) → the time of its budget, which a miss counts as."""


@dataclasses.dataclass(frozen=True)
class Raced:
    """All that is stored of a race but its looks; workloads that could not be raced are left out."""

    rules: Rules
    workloads: Mapping[str, Mapping[str, Any]]
    contestants: tuple[str, ...]
    rows: Sequence[Row]
    curves: Curves
    calibration: Mapping[tuple[str, str], Calibrated]
    clock: StepClock
    crossed: Mapping[int, Reached]
    """Trial → when it crossed its target; ∞ for a miss."""
    ratio_errors: Mapping[str, Errors]
    """Workload → pair of contestants → the relative standard error of the ratio of their step times."""

    @classmethod
    def read(cls, results: Results) -> Raced:
        rules, calibration = results.rules(), results.calibration()
        workloads = {name: facts for name, facts in results.workloads().items() if not facts["problem"]}
        contestants = tuple(contestant.name for contestant in results.contestants())
        rows = [row for row in results.rows() if row.workload in workloads]
        curves = results.curves()
        sessions = {name: results.sessions(name) for name in workloads}
        return cls(
            rules=rules,
            workloads=workloads,
            contestants=contestants,
            rows=rows,
            curves=curves,
            calibration=calibration,
            clock=StepClock(rules, calibration, _eval_every(workloads)),
            crossed=_crossed(rows, curves, workloads),
            ratio_errors=errors_by_workload(contestants, sessions, calibration),
        )

    @property
    def eval_every(self) -> dict[str, int]:
        return _eval_every(self.workloads)

    def times(self, rows: Sequence[Row]) -> dict[str, StudyTimes]:
        """The times of these trials by clock, late ones as they are; seconds come first where they are known."""
        forms: dict[str, Callable[[Row], float | None]] = {
            SECONDS: lambda row: self.clock.seconds(row.workload, row.contestant, self.crossed[row.id].steps),
            STEPS: lambda row: self.crossed[row.id].steps,
            WALL: lambda row: self.crossed[row.id].seconds,
        }
        if self.rules.clock == STEPS_CLOCK or not self.calibration:
            del forms[SECONDS]
        times = {name: study_times(rows, form, self.workloads, self.contestants) for name, form in forms.items()}
        if SECONDS in times:
            errors = errors_of_cells(self.ratio_errors, self.calibration)
            times[SECONDS] = dataclasses.replace(times[SECONDS], pace_errors=errors)
        return times

    def limits(self) -> dict[str, dict[tuple[str, str], float]]:
        """Budgets in steps and in seconds; by the wall clock nobody knows how long the rest would have taken."""
        most = {
            name: float(self.rules.most_steps(about["facts"]["max_steps"])) for name, about in self.workloads.items()
        }
        steps = {(name, workload): most[workload] for workload in most for name in self.contestants}
        for row in self.rows:
            if row.max_steps is not None and self.rules.ruleset == BUDGET:
                steps[row.contestant, row.workload] = float(row.max_steps)
        return {SECONDS: {(c, w): self.clock.seconds(w, c, most) for (c, w), most in steps.items()}, STEPS: steps}


def main_clock(times: Mapping[str, StudyTimes]) -> str:
    return SECONDS if SECONDS in times else STEPS


def _eval_every(workloads: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: about["facts"]["eval_every"] for name, about in workloads.items()}


def study_times(
    rows: Sequence[Row],
    time_of: Callable[[Row], float | None],
    workloads: Mapping[str, Mapping[str, Any]],
    contestants: Sequence[str],
) -> StudyTimes:
    """The fastest trial of every study that has ended; ``time_of`` gives a trial's time to target, None for a miss."""
    cells: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    unfinished = {(r.contestant, r.workload, r.study) for r in rows if r.status is None}
    for row in rows:
        if (row.contestant, row.workload, row.study) in unfinished:
            continue
        cell = cells[row.contestant, row.workload]
        time = time_of(row)
        cell[row.study] = min(math.inf if time is None else time, cell.get(row.study, math.inf))
    variants = {name: HELD_OUT[name] for name in workloads if HELD_OUT.get(name) in workloads}
    scored = tuple(name for name in workloads if name not in variants)
    return StudyTimes(tuple(contestants), scored, variants, cells, with_common_draws(rows))


def with_common_draws(rows: Iterable[Row]) -> frozenset[str]:
    """The contestants that share their seeds; a second name for one of them has seeds that nobody else has."""
    sharing: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows:
        sharing[row.workload, row.seed].add(row.contestant)
    return frozenset(name for names in sharing.values() if len(names) > 1 for name in names)


def _crossed(rows: Sequence[Row], curves: Curves, workloads: Mapping[str, Mapping[str, Any]]) -> dict[int, Reached]:
    """Trial → when it crossed its target; ∞ for a miss."""
    found = {}
    for row in rows:
        about = workloads[row.workload]
        if row.steps_to_target is None:
            found[row.id] = Reached(math.inf, math.inf)
        else:
            direction, curve = about["facts"]["direction"], curves.get(row.id, ())
            found[row.id] = reached(row.steps_to_target, curve, about["target"], direction, about["untrained"])
    return found
