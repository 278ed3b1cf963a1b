"""How far scores could have come out otherwise: a bootstrap over studies.

Every cell (contestant and workload) gets as many studies as it has, drawn from its own with replacement; medians,
rules and scores are computed anew.  For contestants with common draws the same studies are drawn, so that luck which
they share does not count as uncertainty of their order.  An error that all times of a cell share (of the step time they
are multiples of) is drawn too, once per resample.  With five studies a cell the intervals are indicative: a median of
five cannot say more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from fallline.score import profiles
from fallline.score.algoperf import TAU_MAX
from fallline.score.times import StudyTimes

RESAMPLES = 10_000
"""So many that chances are right to the two digits that are shown: of 2,000 the second would be luck."""
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class ScoreSamples:
    """Scores of every contestant in every resample: resamples × contestants."""

    contestants: tuple[str, ...]
    scores: np.ndarray
    ratios: np.ndarray
    """Times over the fastest: resamples × contestants × workloads."""

    def profile_band(self, contestant: str, taus: Sequence[float], level: float = LEVEL) -> tuple[list[float], ...]:
        """The low and the high edge of a contestant's profile at every τ, each τ by itself."""
        ratio = self.ratios[:, self.contestants.index(contestant)]
        ends = [(1 - level) / 2, (1 + level) / 2]
        edges = [np.quantile((ratio <= tau).mean(axis=-1), ends, method="inverted_cdf") for tau in taus]
        return [float(low) for low, _ in edges], [float(high) for _, high in edges]

    def interval(self, contestant: str, level: float = LEVEL) -> tuple[float, float]:
        column = self.scores[:, self.contestants.index(contestant)]
        low, high = np.quantile(column, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def above(self, a: str, b: str) -> float:
        """P(a's score is above b's); equal scores count as half."""
        first, second = (self.scores[:, self.contestants.index(name)] for name in (a, b))
        return float((first > second).mean() + 0.5 * (first == second).mean())


def resampled_medians(table: StudyTimes, resamples: int, seed: int) -> np.ndarray:
    """resamples × contestants × columns."""
    # Apart from what a column's common draws begin with, which [seed, 0] would be: zeros at the end seed nothing else.
    own = np.random.default_rng([seed, len(table.columns)] if table.common_draws else seed)
    medians = np.full((resamples, len(table.contestants), len(table.columns)), math.inf)
    for i, contestant in enumerate(table.contestants):
        for j, workload in enumerate(table.columns):
            times = np.array([time for _, time in sorted(table.cell(contestant, workload).items())])
            generator = np.random.default_rng([seed, j]) if contestant in table.common_draws else own
            if len(times):
                medians[:, i, j] = np.median(times[generator.integers(0, len(times), (resamples, len(times)))], axis=1)
    return medians * _paces(table, resamples, seed)


def _paces(table: StudyTimes, resamples: int, seed: int) -> np.ndarray:
    """Factors that all times of a cell might have to be multiplied with: resamples × contestants × columns."""
    errors = np.array([[table.pace_error(c, w) for w in table.columns] for c in table.contestants])
    # A generator of its own, so that tables without such errors are drawn as they always were.
    generator = np.random.default_rng([seed, *map(len, (table.contestants, table.columns)), resamples])
    return np.exp(errors * generator.standard_normal((resamples, *errors.shape)))


def bootstrap(
    table: StudyTimes, *, tau_max: float = TAU_MAX, resamples: int = RESAMPLES, seed: int = 0, compat: bool = False
) -> ScoreSamples:
    medians = resampled_medians(table, resamples, seed)
    times = profiles.apply_rules(medians, table.workloads, table.variants, tau_max)
    integral = profiles.score_compat if compat else profiles.score
    ratios = profiles.ratios(times)
    return ScoreSamples(table.contestants, integral(ratios, tau_max), ratios)
