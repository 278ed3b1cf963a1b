"""Quality at equal time: the metric at the end of an equal budget, and one sentence on the best."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fallline.measure.ranks import rank_sum_p
from fallline.measure.stats import ALPHA, holm
from fallline.race.results import Results, Row
from fallline.score.leaderboard import listed
from fallline.score.separation import fewest_studies


@dataclasses.dataclass(frozen=True)
class Quality:
    """The metric at the end of an equal budget: contestant → one value per study, the best of its trials.

    A study without a value, because its trials diverged or crashed, counts as the worst there can be.
    """

    workload: str
    metric: str
    direction: str
    values: Mapping[str, tuple[float, ...]]

    @property
    def worst(self) -> float:
        return math.inf if self.direction == "lower" else -math.inf

    def median(self, contestant: str) -> float:
        found = self.values[contestant]
        return float(np.median(found)) if found else self.worst

    @property
    def ranked(self) -> list[str]:
        sign = 1.0 if self.direction == "lower" else -1.0
        return sorted(self.values, key=lambda name: (sign * self.median(name), name))

    @property
    def verdict(self) -> str:
        """One sentence on who is best with the same time."""
        ranked = [name for name in self.ranked if self.values[name]]
        if len(ranked) < 2 or math.isinf(self.median(ranked[0])):
            return f"Equal budget on {self.workload}: nothing to compare."
        pairs = list(itertools.combinations(ranked, 2))
        corrected = holm([rank_sum_p(self.values[a], self.values[b]) for a, b in pairs])
        apart = {pair for pair, p in zip(pairs, corrected, strict=True) if p <= ALPHA}
        first, second = ranked[:2]
        best, next_best = self.median(first), self.median(second)
        level = [name for name in ranked if self.median(name) == best]
        others = [name for name in ranked if name not in level]
        alike = [name for name in others if any((leader, name) not in apart for leader in level)]
        if len(level) == 1:
            against = "none" if math.isinf(next_best) else f"{next_best:#.4g}"
            lead = f"{first} is best on {self.workload} ({self.metric} {best:#.4g} against {against})"
        else:
            lead = f"{listed(level)} are equal on {self.workload} ({self.metric} {best:#.4g})"
        if not alike:
            return f"With the same time {lead}{', separated from all others' if others else ''}."
        names = "any of the others" if len(alike) == len(others) > 1 else listed(alike)
        return f"With the same time {lead}, not distinguishable from {names}{self._too_few(ranked, len(pairs))}."

    def _too_few(self, ranked: Sequence[str], pairs: int) -> str:
        studies = min(len(self.values[name]) for name in ranked)
        floor = fewest_studies(1, ALPHA / pairs)
        if studies >= floor:
            return ""
        held = "1 study" if studies == 1 else f"{studies} studies"
        return f"; {held} each cannot separate any two of {len(ranked)}, {floor} could"


def qualities(
    results: Results, rows: Sequence[Row], workloads: Mapping[str, Mapping[str, Any]], contestants: Sequence[str]
) -> tuple[Quality, ...]:
    """The quality on every workload."""
    found = []
    for workload, about in workloads.items():
        direction = about["facts"]["direction"]
        best = min if direction == "lower" else max
        worst = math.inf if direction == "lower" else -math.inf
        finals: dict[str, dict[int, float]] = {name: {} for name in contestants}
        for row in rows:
            if row.workload == workload and row.status is not None:
                evaluations = results.evaluations(row.id)
                value = evaluations[-1][1] if evaluations and evaluations[-1][0] == row.max_steps else None
                studies = finals[row.contestant]
                studies[row.study] = best(studies.get(row.study, worst), worst if value is None else value)
        values = {name: tuple(studies[study] for study in sorted(studies)) for name, studies in finals.items()}
        found.append(Quality(workload, about["facts"]["metric"], direction, values))
    return tuple(found)
