"""Scores by study over several workloads as the evidence of a look.

A study's score on a workload is the score it would add were its time the median: 1 for the fastest, 0 for a miss.  The
score of a contestant is the mean over workloads and studies.  Draws are not taken for common: on AlgoPerf's logs they
are not, and with tuning they share little.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping

import numpy as np

from fallline.score.algoperf import TAU_MAX
from fallline.score.decision.evidence import WEIGHT, Count, Difference
from fallline.score.separation import study_scores
from fallline.score.times import StudyTimes


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of every contestant, by workload and study; more is better, and gaps are in points of the score."""

    values: Mapping[str, Mapping[str, np.ndarray]]
    """Contestant → workload → a score per study."""
    crashed: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pace_variance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Contestant → the variance of its score that comes from errors of its step times."""
    relative: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    @functools.cached_property
    def workloads(self) -> tuple[str, ...]:
        return tuple(next(iter(self.values.values()), {}))

    def count(self, name: str) -> Count:
        cells = list(self.values[name].values())
        studies = max(map(len, cells), default=0)
        scored = sum(any(study < len(cell) and cell[study] > 0.0 for cell in cells) for study in range(studies))
        return Count(studies, scored, self.crashed.get(name, 0))

    @functools.cached_property
    def _mean(self) -> dict[str, float]:
        share = max(1, len(self.workloads))
        return {name: sum(map(_mean_of, cells.values())) / share for name, cells in self.values.items()}

    def best(self, racing: Collection[str]) -> str | None:
        scored = [name for name in self.names if name in racing and self._mean[name] > 0.0]
        return max(scored, key=lambda name: (self._mean[name], -self.crashed.get(name, 0)), default=None)

    # ------------------------------------------------------------------ noise

    @functools.cached_property
    def _noise(self) -> dict[str, tuple[float, float]]:
        """Workload → the variance of a study, and its degrees of freedom, of the cells that are not constant."""
        found: dict[str, tuple[float, float]] = {}
        for workload in self.workloads:
            cells = [cells[workload] for cells in self.values.values() if _varies(cells[workload])]
            freedom = sum(len(cell) - 1 for cell in cells)
            if freedom:
                found[workload] = (sum(float(cell.var()) * len(cell) for cell in cells) / freedom, float(freedom))
        if not found:
            return dict.fromkeys(self.workloads, (0.0, math.inf))
        # A workload on which nobody varies gets the noise of the others: that no study missed by luck is luck too.
        usual = (float(np.mean([v for v, _ in found.values()])), float(sum(f for _, f in found.values())))
        return {workload: found.get(workload, usual) for workload in self.workloads}

    def _part(self, name: str, workload: str) -> tuple[float, float]:
        """The variance of the mean of a cell, and its degrees of freedom."""
        cell = self.values[name][workload]
        pooled, freedom = self._noise[workload]
        own = len(cell) - 1
        variance = (WEIGHT * pooled + float(cell.var()) * len(cell)) / (WEIGHT + own)
        return variance / len(cell), min(WEIGHT + own, freedom)

    def difference(self, name: str, than: str) -> Difference | None:
        studies = min(self.count(name).studies, self.count(than).studies)
        if studies == 0:
            return None
        parts = [self._part(which, workload) for workload in self.workloads for which in (name, than)]
        share = len(self.workloads) ** 2
        variance = sum(part for part, _ in parts) / share
        spread = sum((part / share) ** 2 / freedom for part, freedom in parts)
        # Satterthwaite: the degrees of freedom of a sum of variances that are known differently well.
        known = variance**2 / spread if spread > 0.0 else math.inf
        fixed = self.pace_variance.get(name, 0.0) + self.pace_variance.get(than, 0.0)
        return Difference(self._mean[than] - self._mean[name], variance * studies, studies, fixed, known)


def scores_of(table: StudyTimes, *, crashed: Mapping[str, int] | None = None, tau_max: float = TAU_MAX) -> Scores:
    """The scores of a table; workloads that nobody reached are left out, as they are for scores."""
    medians = table.medians()
    fastest = {}
    for column, workload in enumerate(table.columns):
        times = [t for name in table.contestants for t in table.cell(name, workload).values()]
        median = float(medians[:, column].min(initial=math.inf))
        # Where every median is a miss, the best of all studies stands for it.
        fastest[workload] = median if math.isfinite(median) else min(times, default=math.inf)
    scored = [workload for workload in table.workloads if math.isfinite(fastest[workload])]
    studies = max((len(cell) for cell in table.cells.values()), default=0)
    values = {
        name: {w: _or_missed(study_scores(table, name, w, fastest, tau_max), studies) for w in scored}
        for name in table.contestants
    }
    return Scores(values, crashed or {}, {name: _pace_variance(table, name, scored, values) for name in values})


def _or_missed(scores: np.ndarray, studies: int) -> np.ndarray:
    """A cell that was never run is one that was always missed."""
    return scores if len(scores) else np.zeros(studies)


def _pace_variance(
    table: StudyTimes, name: str, scored: Collection[str], values: Mapping[str, Mapping[str, np.ndarray]]
) -> float:
    """A score is (τ_max − r)/(τ_max − 1), so an error of e in the time is one of r·e/(τ_max − 1) in the score."""
    total = 0.0
    for workload in scored:
        cell = values[name][workload]
        slope = np.where(cell > 0.0, (TAU_MAX - (TAU_MAX - 1) * cell) / (TAU_MAX - 1), 0.0)
        total += (_mean_of(slope) * table.pace_error(name, workload)) ** 2
    return total / max(1, len(scored)) ** 2


def _mean_of(cell: np.ndarray) -> float:
    return float(cell.mean()) if len(cell) else 0.0


def _varies(cell: np.ndarray) -> bool:
    return len(cell) > 1 and bool((cell != cell[0]).any())
