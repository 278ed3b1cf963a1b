"""When a trial can end early without losing anything.

1. Its own study has a faster trial: the study's time is that trial's.
2. It is past τ_max times the fastest contestant, all of whose studies have ended: it counts as a miss.

Never because "the median is decided": intervals need the rest.  Never with an equal budget.

How far such a trial came depends on what ran beside it and on interruptions.  The leaderboard does not: a study's
time is that of its fastest trial, which never ends early, and one past τ_max times the fastest contestant counts as
missed even where its trial went on and reached the target (:func:`late_studies`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence, Set

import numpy as np

from fallline.race.clock import StepClock
from fallline.race.plan import RACE, Rules
from fallline.race.results import Row
from fallline.score.times import StudyTimes
from fallline.workloads import HELD_OUT

OWN_STUDY = "its study has a faster trial"
PAST_TAU_MAX = "past τ_max times the fastest contestant"


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
        if not self._rules.ends_early or row.kind != RACE:
            return None
        if step >= self._best.get((row.workload, row.contestant, row.study), math.inf):
            return OWN_STUDY
        seconds = self._clock.seconds(row.workload, row.contestant, step)
        if seconds > self._rules.tau_max * self._fastest(row.workload):
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
    """(contestant, workload, study) of the times past τ_max times the fastest contestant's median.

    That contestant's is the smallest of all medians, so whatever was ended early for being late is among them.
    """
    medians = dict(zip(table.contestants, table.medians(), strict=True))
    found = set()
    for column, workload in enumerate(table.columns):
        base = table.workloads.index(table.variants[workload]) if workload in table.variants else column
        paces = [row[column] for row in medians.values() if math.isfinite(row[base])]
        limit = tau_max * min(paces, default=math.inf)
        for contestant in table.contestants:
            cell = table.cell(contestant, workload)
            found |= {(contestant, workload, study) for study, time in cell.items() if time > limit}
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
