"""What samples can say: medians, bootstrap intervals, paired ratios, and no more digits than they support."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    value: float
    low: float
    high: float
    count: int
    """How many samples it comes from."""

    def text(self, unit: str = "") -> str:
        """``5.31× (5.24 to 5.40)``: the digits that the interval supports."""
        decimals = supported_decimals(self.value, self.low, self.high)
        if self.low == self.high:
            return f"{self.value:.{decimals}f}{unit}"
        return f"{self.value:.{decimals}f}{unit} ({self.low:.{decimals}f} to {self.high:.{decimals}f})"

    def short(self, unit: str = "") -> str:
        return f"{self.value:.{supported_decimals(self.value, self.low, self.high)}f}{unit}"


def supported_decimals(value: float, low: float, high: float) -> int:
    """Decimals down to the first digit of half the interval: from one to four significant digits.

    >>> supported_decimals(5.32, 5.24, 5.40), supported_decimals(0.02513, 0.02512, 0.02514)
    (2, 5)
    >>> supported_decimals(88.0, 81.0, 95.0), supported_decimals(0.04, 0.01, 10.0)
    (0, 2)
    """
    if not math.isfinite(value) or value == 0.0:
        return 0
    leading = -math.floor(math.log10(abs(value)))
    half = (high - low) / 2
    wanted = leading + 3 if half <= 0.0 else -math.floor(math.log10(half))
    return max(0, leading, min(wanted, leading + 3))


def bootstrap_median(
    samples: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """The median and its percentile bootstrap interval; with fewer than six samples, their whole range."""
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"samples must be a sequence of at least one number, got {samples!r}")
    middle = float(np.median(values))
    if len(values) < 6:
        return Estimate(middle, float(values.min()), float(values.max()), len(values))
    picks = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    tail = (1 - level) / 2
    low, high = np.quantile(np.median(values[picks], axis=1), [tail, 1 - tail])
    return Estimate(middle, float(low), float(high), len(values))


def paired_ratio(
    numerator: Sequence[float], denominator: Sequence[float], *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """The median of the ratios of samples that were taken side by side: what slows both cancels out."""
    if len(numerator) != len(denominator):
        raise ValueError(f"paired samples must be as many, got {len(numerator)} and {len(denominator)}")
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return bootstrap_median(ratios, level=level, seed=seed)


def in_words(times_longer: Estimate) -> str:
    """A ratio of times, the other's over ours, as a verdict on ours.

    >>> in_words(Estimate(2.7, 2.6, 2.8, 30)), in_words(Estimate(0.5, 0.4, 0.6, 30))
    ('2.7× faster', '2.0× slower')
    >>> in_words(Estimate(1.01, 0.99, 1.03, 30))
    'not distinguishable'
    """
    if times_longer.low <= 1.0 <= times_longer.high:
        return "not distinguishable"
    if times_longer.value > 1.0:
        return f"{times_longer.short('×')} faster"
    inverse = Estimate(1 / times_longer.value, 1 / times_longer.high, 1 / times_longer.low, times_longer.count)
    return f"{inverse.short('×')} slower"


def spread(samples: Sequence[float]) -> float:
    """The median deviation from the median, relative to it: 0.01 is quiet, above 0.05 the machine is busy."""
    values = np.asarray(samples, dtype=np.float64)
    middle = np.median(values)
    return float(np.median(np.abs(values - middle)) / middle)
