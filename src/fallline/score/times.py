"""From trials to times: when a trial reached its target, the fastest trial of a study, the studies of a cell."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from fallline.score.algoperf import BASE_WORKLOADS, HELD_OUT, TARGETS, Target, base_of
from fallline.score.logs import Trial

Cell = Mapping[int, float]
"""Study → seconds to the target, ∞ where no trial of the study reached it."""


@dataclasses.dataclass(frozen=True)
class StudyTimes:
    """Seconds to target of every contestant on every workload in every study: all that a score is made of."""

    contestants: tuple[str, ...]
    workloads: tuple[str, ...]
    """The workloads that are scored."""
    variants: Mapping[str, str]
    """Held-out variant → its workload.  A contestant that fails a variant fails the workload."""
    cells: Mapping[tuple[str, str], Cell]
    """(contestant, workload or variant) → times; a missing cell is one that was never run."""
    common_draws: frozenset[str] = frozenset()
    """The contestants whose studies have the same random numbers, each those of the others' study of that number."""
    pace_errors: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """(contestant, workload or variant) → the relative standard error that all times of the cell have in common.

    Times that are steps × a measured step time have one, whatever the number of studies; those of a wall clock none.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Workloads, then variants."""
        return (*self.workloads, *self.variants)

    def cell(self, contestant: str, workload: str) -> Cell:
        return self.cells.get((contestant, workload), {})

    def pace_error(self, contestant: str, workload: str) -> float:
        return self.pace_errors.get((contestant, workload), 0.0)

    def paced(self, factors: Mapping[tuple[str, str], float]) -> StudyTimes:
        """The table with all times of these cells multiplied."""
        cells = {
            key: {study: time * factors.get(key, 1.0) for study, time in cell.items()}
            for key, cell in self.cells.items()
        }
        return dataclasses.replace(self, cells=cells)

    def medians(self) -> np.ndarray:
        """Contestants × columns: the median over studies, in which ∞ takes part; ∞ for a missing cell."""
        table = np.full((len(self.contestants), len(self.columns)), math.inf)
        for i, contestant in enumerate(self.contestants):
            for j, workload in enumerate(self.columns):
                times = list(self.cell(contestant, workload).values())
                if times:
                    table[i, j] = np.median(times)
        return table


def index_reached(trial: Trial, target: Target) -> int | None:
    """The first evaluation that satisfies the target."""
    return next((i for i, value in enumerate(trial.metric) if target.reached(value)), None)


def study_time(trials: Iterable[Trial], target: Target, *, compat: bool = False) -> float:
    """Seconds to target of the fastest trial of a study, ∞ if none reached it.

    ``compat``: AlgoPerf takes the trial with the fewest evaluations, ties by number, which need not be the
    fastest.
    """
    reached = []
    for trial in sorted(trials, key=lambda t: t.number):
        index = index_reached(trial, target)
        if index is not None:
            reached.append((index, float(trial.seconds[index])))
    if not reached:
        return math.inf
    if compat:
        return min(reached, key=lambda pair: pair[0])[1]
    return min(seconds for _, seconds in reached)


def from_logs(trials: Iterable[Trial], *, held_out: bool = True, compat: bool = False) -> StudyTimes:
    """The table of AlgoPerf's logs.  Workloads are those that anybody ran; all eight with ``compat``."""
    grouped: dict[tuple[str, str, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        grouped[trial.submission, trial.workload, trial.study].append(trial)
    cells: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for (submission, workload, study), members in grouped.items():
        cells[submission, workload][study] = study_time(members, TARGETS[workload], compat=compat)
    ran = {workload for _, workload in cells}
    workloads = tuple(name for name in BASE_WORKLOADS if compat or name in ran)
    variants = {name: str(base_of(name)) for name in HELD_OUT if held_out and (compat or name in ran)}
    return StudyTimes(
        contestants=tuple(sorted({submission for submission, _ in cells})),
        workloads=workloads,
        variants={name: base for name, base in variants.items() if base in workloads},
        cells=cells,
    )
