"""Student's t distribution: tails by the incomplete beta function, quantiles by bisection.

scipy has both, but is no dependency at run time; tests hold these against it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

TINY = 1e-300
"""Keeps the continued fraction from dividing by zero."""
MOST_TERMS = 10_000


def t_tail(value: float, freedom: float) -> float:
    """P(T > value) with so many degrees of freedom, which need not be whole; ∞ gives the normal distribution.

    >>> round(t_tail(2.0, 10.0), 6), t_tail(0.0, 3.0)
    (0.036694, 0.5)
    """
    _check_freedom(freedom)
    if math.isnan(value):
        return math.nan
    if math.isinf(value):
        return 0.0 if value > 0 else 1.0
    if math.isinf(freedom):
        return 0.5 * math.erfc(value / math.sqrt(2))
    total = freedom + value * value
    beyond = 0.5 * incomplete_beta(freedom / total, freedom / 2, 0.5, rest=value * value / total)
    return beyond if value >= 0 else 1.0 - beyond


@functools.lru_cache(maxsize=4096)
def t_quantile(tail: float, freedom: float) -> float:
    """The value that T exceeds with probability ``tail``.

    >>> round(t_quantile(0.025, 10.0), 4), t_quantile(0.5, 2.0)
    (2.2281, 0.0)
    """
    if not 0.0 < tail < 1.0:
        raise ValueError(f"tail must be between 0 and 1, got {tail!r}")
    _check_freedom(freedom)
    if tail == 0.5:
        return 0.0
    if tail > 0.5:
        return -t_quantile(1.0 - tail, freedom)
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > tail:
        low, high = high, 2.0 * high
    while (middle := (low + high) / 2) not in (low, high):
        if t_tail(middle, freedom) > tail:
            low = middle
        else:
            high = middle
    return high


@dataclasses.dataclass(frozen=True)
class MeanInterval:
    """A mean, and where the mean of infinitely many such values would lie."""

    value: float
    low: float
    high: float
    count: int

    def holds(self, other: float) -> bool:
        return self.low <= other <= self.high


def mean_interval(values: Sequence[float], alpha: float) -> MeanInterval:
    """Student's interval; it misses the true mean in a share ``alpha`` of the cases, if values are independent.

    The interval of a single value is infinite.

    >>> found = mean_interval([1.0, 2.0, 3.0], 0.05)
    >>> found.value, round(found.low, 2), round(found.high, 2)
    (2.0, -0.48, 4.48)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return MeanInterval(mean, -math.inf, math.inf, count)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = t_quantile(alpha / 2, count - 1) * math.sqrt(variance / count)
    return MeanInterval(mean, mean - half, mean + half, count)


def incomplete_beta(x: float, a: float, b: float, *, rest: float | None = None) -> float:
    """The regularised incomplete beta function I_x(a, b), by Lentz's form of its continued fraction.

    ``rest`` is 1 − x, for callers that know it to more digits than the difference has.

    >>> round(incomplete_beta(0.5, 2.0, 3.0), 6)
    0.6875
    """
    rest = 1.0 - x if rest is None else rest
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    powers = a * (math.log(x) if x < 0.5 else math.log1p(-rest)) + b * math.log(rest)
    front = math.exp(scale + powers)
    # The fraction converges fast below the mean of the distribution; above it the other tail is taken.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    found = d
    for m in range(1, MOST_TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away_from_zero(1.0 + numerator * d)
            c = _away_from_zero(1.0 + numerator / c)
            found *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return found
    return found


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


def _check_freedom(freedom: float) -> None:
    if not freedom > 0.0:
        raise ValueError(f"freedom must be > 0, got {freedom!r}")
