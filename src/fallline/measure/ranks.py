"""Exact rank tests, and the shifts they cannot rule out.

Tests use ranks because times have heavy right tails and machines drift, so that a mean says little. They are exact
because every arm is timed once in a round, in random order: if two arms are the same, which of them was faster in a
round is a coin toss whatever the noise, and the signed-rank test counts these tosses. Its size is right by design.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

EXACT_UP_TO = 200
"""The largest number of pairs for the exact test; beyond, the normal approximation is accurate enough."""


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test: are the differences symmetric about 0?  Zeros do not count.

    >>> signed_rank_p([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])  # all of six on one side: 2 / 2**6
    0.03125
    """
    values = np.asarray([d for d in differences if d != 0.0], dtype=np.float64)
    if not len(values):
        return 1.0
    doubled = _doubled_ranks(np.abs(values))
    positive = int(doubled[values > 0].sum())
    lower = min(positive, int(doubled.sum()) - positive)
    if len(values) > EXACT_UP_TO:
        return _normal_p(lower / 2, len(values))
    return min(1.0, 2.0 * float(_below(tuple(sorted(doubled.tolist())))[lower]))


def rank_sum_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the Wilcoxon–Mann–Whitney test for samples that are not paired.

    Infinities are allowed (a target that was never reached) and tie for last.

    >>> round(rank_sum_p([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]), 4)  # 2 of the 252 ways
    0.0079
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not len(a) or not len(b):
        return 1.0
    doubled = _doubled_ranks(np.concatenate([a, b]))
    observed = int(doubled[: len(a)].sum())
    if len(doubled) > EXACT_UP_TO // 2:
        return _normal_rank_sum_p(observed / 2, len(a), len(b), doubled / 2)
    ways = _subset_sums(tuple(sorted(doubled.tolist())), len(a))
    total = ways.sum()
    return min(1.0, 2.0 * float(min(ways[: observed + 1].sum(), ways[observed:].sum()) / total))


def shift_interval(differences: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """The pseudo-median of the differences, and the interval of shifts that the signed-rank test does not reject.

    With too few differences for that alpha the interval is everything.
    """
    values = np.asarray(differences, dtype=np.float64)
    upper = np.triu_indices(len(values))
    walsh = np.sort((values[upper[0]] + values[upper[1]]) / 2)
    outside = _most_outside(len(values), alpha / 2)
    middle = float(np.median(walsh))
    if outside == 0:
        return middle, -math.inf, math.inf
    return middle, float(walsh[outside - 1]), float(walsh[len(walsh) - outside])


def unpaired_shift_interval(
    first: Sequence[float], second: Sequence[float], alpha: float
) -> tuple[float, float, float]:
    """The median of all differences, second − first, and the shifts that the rank-sum test does not reject.

    With too few samples for that alpha the interval is everything.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = np.sort((b[:, None] - a[None, :]).ravel())
    outside = _most_outside_unpaired(len(a), len(b), alpha / 2)
    middle = float(np.median(differences))
    if outside == 0:
        return middle, -math.inf, math.inf
    return middle, float(differences[outside - 1]), float(differences[len(differences) - outside])


def smallest_rank_sum_p(first: int, second: int) -> float:
    """Two-sided p of so many samples, all of one set below all of the other.

    >>> round(smallest_rank_sum_p(5, 5), 4)
    0.0079
    """
    return min(1.0, 2 / math.comb(first + second, first))


def least_pairs(alpha: float) -> int:
    """The fewest pairs of which all on one side are significant.

    >>> least_pairs(0.02)
    7
    """
    return max(1, math.ceil(1 - math.log2(alpha)))


def _doubled_ranks(values: np.ndarray) -> np.ndarray:
    """Twice the ranks from 1, with ties sharing their mean, so that all are whole numbers."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(values)]
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.repeat(starts + 1 + ends, ends - starts)
    return ranks


@functools.lru_cache(maxsize=512)
def _below(doubled: tuple[int, ...]) -> np.ndarray:
    """P(sum of the positive doubled ranks ≤ s) for every s, when each sign is a coin toss."""
    chance = np.zeros(sum(doubled) + 1)
    chance[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(chance)
        shifted[rank:] = chance[: len(chance) - rank]
        chance = (chance + shifted) / 2
    return np.cumsum(chance)


def _most_outside(count: int, tail: float) -> int:
    """The number of Walsh averages that may lie outside the interval on one side."""
    if count == 0:
        return 0
    if count > EXACT_UP_TO:
        mean, deviation = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return max(0, math.floor(mean - normal_quantile(1 - tail) * deviation))
    below = _below(tuple(range(2, 2 * count + 1, 2)))[::2]  # P(sum of ranks ≤ s)
    return int(np.searchsorted(below, tail * (1 + 1e-9), side="right"))


def _most_outside_unpaired(first: int, second: int, tail: float) -> int:
    """The number of differences that may lie outside the interval on one side."""
    count = first + second
    if count > EXACT_UP_TO // 2:
        mean, deviation = first * second / 2, math.sqrt(first * second * (count + 1) / 12)
        return max(0, math.floor(mean - normal_quantile(1 - tail) * deviation))
    ways = _subset_sums(tuple(range(2, 2 * count + 1, 2)), first)
    lowest = first * (first + 1)  # twice the sum of the ranks 1, 2, …
    below = np.cumsum(ways[lowest::2]) / ways.sum()  # P(differences below 0 ≤ u)
    return int(np.searchsorted(below, tail * (1 + 1e-9), side="right"))


@functools.lru_cache(maxsize=128)
def _subset_sums(doubled: tuple[int, ...], size: int) -> np.ndarray:
    """The number of subsets of this size for each sum."""
    ways = np.zeros((size + 1, sum(doubled) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        for taken in range(size, 0, -1):
            ways[taken, rank:] += ways[taken - 1, : ways.shape[1] - rank]
    return ways[size]


def _normal_p(lower: float, count: int) -> float:
    mean, deviation = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    return min(1.0, math.erfc(max(0.0, mean - lower - 0.5) / deviation / math.sqrt(2)))


def _normal_rank_sum_p(observed: float, first: int, second: int, ranks: np.ndarray) -> float:
    count = first + second
    variance = first * second / (count * (count - 1)) * float(np.square(ranks - ranks.mean()).sum())
    if variance == 0.0:
        return 1.0
    distance = max(0.0, abs(observed - first * (count + 1) / 2) - 0.5)
    return min(1.0, math.erfc(distance / math.sqrt(2 * variance)))


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)
