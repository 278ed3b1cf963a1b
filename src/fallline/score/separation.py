"""Which contestants the data can tell apart.

The question for two of them: could these results have come out so if both were the same algorithm?  Then the labels
of studies could be exchanged within each workload.  So the difference of their mean scores, a score for every
study, is compared with what it is under exchanged labels: an exact test with any number of workloads, any
distribution of times, and misses.  P values are corrected by Holm over all pairs of the table.

Exchanging labels says nothing of an error that all studies of a contestant share: that of the step time which they are
multiples of.  So two are told apart only if they are at the step times, among those that the measurement does not
exclude, which bring them closest together.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from fallline.measure.stats import ALPHA, POWER, holm
from fallline.score.algoperf import TAU_MAX
from fallline.score.times import StudyTimes

SPLITS = 20_000
"""Exchanges of labels that are drawn where there are more; below that all of them are taken.

At least so many: of n the smallest p is 1/n, which must be small enough for a correction over many pairs.
"""


@dataclasses.dataclass(frozen=True)
class Pair:
    """The data's verdict on two contestants."""

    first: str
    second: str
    difference: float
    """Mean score of the studies, first less second."""
    p: float
    p_holm: float
    studies_needed: int | None
    """Studies that would separate them with a chance of 95 %, were this the true difference; None if there is none.

    Corrected for the number of pairs, as the verdict is.
    """
    within_pace_error: bool = False
    """Whether there is no difference at step times that the measurement does not exclude: more studies do not help."""

    @property
    def separated(self) -> bool:
        return self.p_holm <= ALPHA

    @property
    def better(self) -> str:
        """The contestant with the higher mean score of its studies; a ranking by medians may say otherwise where
        studies miss."""
        return self.first if self.difference >= 0.0 else self.second


def study_scores(
    table: StudyTimes, contestant: str, workload: str, fastest: Mapping[str, float], tau_max: float
) -> np.ndarray:
    """A score for every study of a cell: what it would add, were its time the median."""
    scores = []
    for study, time in table.cell(contestant, workload).items():
        for variant, base in table.variants.items():
            if base == workload:
                cell = table.cell(contestant, variant)
                held = cell.get(study, float(np.median(list(cell.values()))) if cell else math.inf)
                time = math.inf if held > tau_max * fastest[variant] or math.isinf(held) else time
        scores.append(max(0.0, (tau_max - time / fastest[workload]) / (tau_max - 1)) if math.isfinite(time) else 0.0)
    return np.array(scores)


def _fastest(table: StudyTimes, a: str, b: str, medians: np.ndarray) -> dict[str, float]:
    """The times that ratios refer to: the same whichever of a's and b's studies are called a's."""
    others = [i for i, name in enumerate(table.contestants) if name not in (a, b)]
    found = {}
    for j, workload in enumerate(table.columns):
        pooled = [*table.cell(a, workload).values(), *table.cell(b, workload).values()]
        candidates = [*medians[others, j], np.median(pooled) if pooled else math.inf]
        # Where the median of both together is a miss, the best of their studies stands for it.
        fastest = float(min(candidates))
        found[workload] = fastest if math.isfinite(fastest) else float(min(pooled, default=math.inf))
    return found


@functools.lru_cache(maxsize=256)
def _splits(first: int, second: int, stratum: int, count: int) -> np.ndarray:
    """Ways to label studies: rows of weights, 1/first for one side and −1/second for the other; row 0 is as it was."""
    total = first + second
    generator = np.random.default_rng([first, second, stratum])
    chosen = np.argsort(generator.random((count, total)), axis=1)[:, :first]
    chosen[0] = np.arange(first)
    weights = np.full((count, total), -1.0 / second)
    np.put_along_axis(weights, chosen, 1.0 / first, axis=1)
    return weights


def _all_splits(first: int, second: int) -> np.ndarray:
    rows = []
    for chosen in itertools.combinations(range(first + second), first):
        row = np.full(first + second, -1.0 / second)
        row[list(chosen)] = 1.0 / first
        rows.append(row)
    return np.array(rows)


def splits_for(pairs: int) -> int:
    """How many exchanges to draw where so many pairs are corrected together: one of them in twice as many as needed.

    >>> splits_for(55), splits_for(406)
    (20000, 40600)
    """
    return max(SPLITS, math.ceil(2 * pairs / ALPHA))


def exchange_test(strata: Sequence[tuple[np.ndarray, np.ndarray]], splits: int = SPLITS) -> tuple[float, float]:
    """Difference of means, averaged over strata, and its two-sided p under exchange of labels within strata.

    >>> difference, p = exchange_test([(np.array([1.0, 1.1, 1.2, 1.3, 1.4]), np.array([2.0, 2.1, 2.2, 2.3, 2.4]))])
    >>> round(difference, 4), round(p, 4) == round(2 / 252, 4)
    (-1.0, True)
    """
    strata = [(a, b) for a, b in strata if len(a) and len(b)]
    if not strata:
        return 0.0, 1.0
    ways = math.prod(math.comb(len(a) + len(b), len(a)) for a, b in strata)
    differences = np.zeros(1)
    for index, (a, b) in enumerate(strata):
        pooled = np.concatenate([a, b])
        if ways <= splits:
            differences = (differences[:, None] + (_all_splits(len(a), len(b)) @ pooled)[None, :]).ravel()
        else:
            differences = differences + _splits(len(a), len(b), index, splits) @ pooled
    differences = differences / len(strata)
    # Row 0 is the observed labelling in both cases: in the sampled one it counts itself, which keeps p valid.
    extreme = np.abs(differences) >= abs(differences[0]) - 1e-12
    return float(differences[0]), float(extreme.mean())


def studies_needed(strata: Sequence[tuple[np.ndarray, np.ndarray]], alpha: float = ALPHA) -> int | None:
    """Studies per contestant that would show this difference with a chance of 95 %, by the normal approximation."""
    strata = [(a, b) for a, b in strata if len(a) > 1 and len(b) > 1]
    if not strata:
        return None
    difference = sum(a.mean() - b.mean() for a, b in strata) / len(strata)
    variance = sum(a.var(ddof=1) + b.var(ddof=1) for a, b in strata) / len(strata) ** 2
    if abs(difference) < 1e-9:
        return None
    normal = NormalDist()
    wanted = variance * ((normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(POWER)) / difference) ** 2
    return max(math.ceil(wanted), fewest_studies(len(strata), alpha))


def fewest_studies(workloads: int, alpha: float = ALPHA) -> int:
    """With fewer studies of each, no result whatever could be significant: there are too few exchanges of labels.

    >>> fewest_studies(1), fewest_studies(8), fewest_studies(1, ALPHA / 10)
    (5, 2, 7)
    """
    if workloads < 1:
        # No number of studies would do, so the search below would not end.
        raise ValueError(f"workloads must be >= 1, got {workloads}")
    count = 2
    while 2 / math.comb(2 * count, count) ** workloads > alpha:
        count += 1
    return count


def _strata(
    table: StudyTimes, a: str, b: str, medians: np.ndarray, tau_max: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The scores of both on every workload that one of them, or somebody else, reached."""
    fastest = _fastest(table, a, b, medians)
    reachable = [w for w in table.workloads if math.isfinite(fastest[w])]
    return [
        (study_scores(table, a, w, fastest, tau_max), study_scores(table, b, w, fastest, tau_max)) for w in reachable
    ]


def _brought_together(table: StudyTimes, better: str, worse: str, alpha: float) -> StudyTimes:
    """The two at the least favourable step times within their error.

    Errors of workloads are independent, so they are moved together by as much as the mean over workloads may be off.
    """
    errors = {w: math.hypot(table.pace_error(better, w), table.pace_error(worse, w)) for w in table.columns}
    whole = math.hypot(*errors.values())
    reach = NormalDist().inv_cdf(1 - alpha / 2)
    moved = {w: reach * error**2 / whole for w, error in errors.items() if error > 0.0}
    slower = {(better, w): math.exp(by / 2) for w, by in moved.items()}
    faster = {(worse, w): math.exp(-by / 2) for w, by in moved.items()}
    return table.paced({**slower, **faster})


def _compare(table: StudyTimes, a: str, b: str, medians: np.ndarray, tau_max: float, pairs: int) -> Pair:
    """Two of a table in which so many pairs are compared; p is not corrected yet."""
    splits, alpha = splits_for(pairs), ALPHA / pairs
    strata = _strata(table, a, b, medians, tau_max)
    difference, p = exchange_test(strata, splits)
    seen = Pair(a, b, difference, p, p, studies_needed(strata, alpha))
    if difference == 0.0 or not any(table.pace_error(name, w) for name in (a, b) for w in table.columns):
        return seen
    worse = b if seen.better == a else a
    strata = _strata(_brought_together(table, seen.better, worse, alpha), a, b, medians, tau_max)
    left, cautious = exchange_test(strata, splits)
    if left * difference <= 0.0:
        return dataclasses.replace(seen, p=1.0, p_holm=1.0, studies_needed=None, within_pace_error=True)
    p = max(p, cautious)
    return dataclasses.replace(seen, p=p, p_holm=p, studies_needed=studies_needed(strata, alpha))


def compare_all(table: StudyTimes, tau_max: float = TAU_MAX) -> list[Pair]:
    """Every pair of contestants, corrected together."""
    medians = table.medians()
    names = list(itertools.combinations(table.contestants, 2))
    pairs = [_compare(table, a, b, medians, tau_max, len(names)) for a, b in names]
    adjusted = holm([pair.p for pair in pairs])
    return [dataclasses.replace(pair, p_holm=p) for pair, p in zip(pairs, adjusted, strict=True)]


def groups(ranked: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[str, ...]]:
    """The largest sets of which no two could be separated, in the order of the ranking.

    Two contestants share a set if and only if they cannot be told apart.
    """
    apart = {frozenset((pair.first, pair.second)) for pair in pairs if pair.separated}
    alike = {a: {b for b in ranked if b != a and frozenset((a, b)) not in apart} for a in ranked}
    found: list[set[str]] = []

    def extend(inside: set[str], candidates: set[str], excluded: set[str]) -> None:
        if not candidates and not excluded:
            found.append(inside)
            return
        # A set without the pivot has one that is apart from it, so only these begin branches (Bron & Kerbosch 1973):
        # of thirty that are all alike there is one branch, not a thousand millions.
        pivot = max((n for n in ranked if n in candidates | excluded), key=lambda n: len(candidates & alike[n]))
        for name in [n for n in ranked if n in candidates - alike[pivot]]:
            extend({*inside, name}, candidates & alike[name], excluded & alike[name])
            candidates = candidates - {name}
            excluded = excluded | {name}

    extend(set(), set(ranked), set())
    sets = [tuple(name for name in ranked if name in group) for group in found]
    return sorted(sets, key=lambda group: [ranked.index(name) for name in group])
