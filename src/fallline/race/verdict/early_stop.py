"""When a trial can end early without losing anything.

1. Its own study has a faster trial: the study's time is that trial's.
2. It is so far past τ_max times the fastest contestant, all of whose studies have ended, that a median in which its
   study counts is a miss whatever the other studies are (:func:`latest`).

Never because "the median is decided": intervals need the rest.  Never with an equal budget.  Never for 2. in rounds,
nor on a workload with a held-out variant in the race: who reached it, however late, sets the pace on the variant.

How far such a trial came depends on what ran beside it and on interruptions.  The leaderboard does not: a study's
time is that of its fastest trial, which never ends early, and one that is late counts as missed even where its trial
went on and reached the target (:func:`late_studies`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

import numpy as np

from fallline.race.clock.step_clock import StepClock
from fallline.race.engine.messages import CENSORED
from fallline.race.plan import TARGET, Rules
from fallline.race.results import Calibrated, Row
from fallline.score.times import StudyTimes
from fallline.workloads import HELD_OUT

OWN_STUDY = "its study has a faster trial"
PAST_TAU_MAX = "past τ_max times the fastest contestant"


def latest(fastest: float, studies: int, tau_max: float) -> float:
    """The time above which a study is late, given the smallest median and how many studies a median is of.

    The median of an even number is the mean of two, one of which may be small: together they are past τ_max times the
    fastest for certain only where the larger is past twice that.

    >>> latest(10.0, studies=5, tau_max=4.0), latest(10.0, studies=4, tau_max=4.0)
    (40.0, 80.0)
    """
    return tau_max * fastest * (1.0 if studies % 2 else 2.0)


class EarlyStop:
    """Keeps what is known of times to target, in the race's clock."""

    def __init__(self, rows: Sequence[Row], rules: Rules, clock: StepClock):
        self._rules = rules
        self._clock = clock
        self._best: dict[tuple[str, str, int], int] = {}
        """(workload, contestant, study) → fewest steps to target."""
        self._open: dict[tuple[str, str], set[int]] = defaultdict(set)
        """(workload, contestant) → trials that have not ended."""
        self._studies: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._with_variants = {HELD_OUT[row.workload] for row in rows if row.workload in HELD_OUT}
        for row in rows:
            self._open[row.workload, row.contestant].add(row.id)
            self._studies[row.workload, row.contestant].add(row.study)
        for row in rows:
            if row.steps_to_target is not None:
                self.reached(row, row.steps_to_target)
            if row.status is not None:
                self.ended(row)

    def reached(self, row: Row, steps: int) -> None:
        key = (row.workload, row.contestant, row.study)
        self._best[key] = min(steps, self._best.get(key, steps))

    def ended(self, row: Row) -> None:
        self._open[row.workload, row.contestant].discard(row.id)

    def reason(self, row: Row, step: int) -> str | None:
        """Why a trial that has done so many steps, and not reached its target, may end; None if it may not."""
        if not self._rules.ends_early or row.kind == TARGET:
            return None
        if step >= self._best.get((row.workload, row.contestant, row.study), math.inf):
            return OWN_STUDY
        if row.workload in self._with_variants or not self._rules.ends_late_trials:
            return None
        seconds = self._clock.seconds(row.workload, row.contestant, step)
        studies = len(self._studies[row.workload, row.contestant])
        if seconds > latest(self._fastest(row.workload), studies, self._rules.tau_max):
            return PAST_TAU_MAX
        return None

    def _fastest(self, workload: str) -> float:
        """The smallest median of a contestant that has ended on this workload; ∞ if there is none."""
        times = [self._median(workload, contestant) for name, contestant in self._studies if name == workload]
        return min(times, default=math.inf)

    def _median(self, workload: str, contestant: str) -> float:
        """∞ while studies are to run, and for a variant where the workload was missed: it then sets no pace."""
        studies, base = self._studies[workload, contestant], HELD_OUT.get(workload)
        if self._open[workload, contestant]:
            return math.inf
        if base is not None and (base, contestant) in self._studies and math.isinf(self._median(base, contestant)):
            return math.inf
        times = [
            self._clock.seconds(workload, contestant, self._best.get((workload, contestant, study), math.inf))
            for study in studies
        ]
        return float(np.median(times))


def late_studies(table: StudyTimes, tau_max: float) -> set[tuple[str, str, int]]:
    """(contestant, workload, study) of the times that are late, given the fastest contestant's median.

    That contestant's is the smallest of all medians, so whatever was ended early for being late is among them.
    """
    fastest = fastest_medians(table)
    found = set()
    for (contestant, workload), cell in table.cells.items():
        if workload in fastest:
            limit = latest(fastest[workload], len(cell), tau_max)
            found |= {(contestant, workload, study) for study, time in cell.items() if time > limit}
    return found


def fastest_medians(table: StudyTimes) -> dict[str, float]:
    """The smallest median on every workload and variant on which studies can be late; ∞ where nobody reached it."""
    medians = table.medians()
    found = {}
    for column, workload in enumerate(table.columns):
        if workload in table.variants.values():
            continue
        base = table.workloads.index(table.variants[workload]) if workload in table.variants else column
        found[workload] = float(min(medians[np.isfinite(medians[:, base]), column], default=math.inf))
    return found


def late_shares(
    table: StudyTimes, allowed: Mapping[tuple[str, str], float], tau_max: float
) -> dict[tuple[str, str], float]:
    """(contestant, workload) → the share of its budget from which it is late; 1 where it is not late within it.

    A late study may have been ended there, so no more is known of its time.
    """
    fastest = fastest_medians(table)
    found = {}
    for (contestant, workload), budget in allowed.items():
        limit = latest(fastest.get(workload, math.inf), len(table.cell(contestant, workload)), tau_max)
        found[contestant, workload] = min(1.0, limit / budget) if math.isfinite(budget) else 1.0
    return found


def without_late(table: StudyTimes, late: Set[tuple[str, str, int]]) -> StudyTimes:
    """The table with misses in their place."""
    cells = {
        (contestant, workload): {
            study: math.inf if (contestant, workload, study) in late else time for study, time in cell.items()
        }
        for (contestant, workload), cell in table.cells.items()
    }
    return dataclasses.replace(table, cells=cells)


def saved_seconds(rows: Sequence[Row], calibration: Mapping[tuple[str, str], Calibrated]) -> float:
    """Training that early ends avoided at most, at each trial's own pace where steps were not calibrated."""
    seconds = 0.0
    for row in rows:
        if row.status == CENSORED and row.steps and row.max_steps:
            cost = calibration.get((row.workload, row.contestant))
            pace = cost.step_seconds if cost else (row.training_seconds or 0.0) / row.steps
            seconds += (row.max_steps - row.steps) * pace
    return seconds
