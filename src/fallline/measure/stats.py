"""Statistics of samples: medians, intervals, comparisons, verdicts, with only the digits that samples support.

A verdict is wrong in at most ``ALPHA`` of the cases in which there is nothing to find, even with several looks and
whole tables: a measurement that looks at its samples several times to decide whether to go on passes the number of
looks (``looks=``), and a table of comparisons goes through :func:`holm`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from fallline.document.numbers import supported_decimals
from fallline.measure.ranks import (
    least_pairs,
    normal_quantile,
    rank_sum_p,
    shift_interval,
    signed_rank_p,
    smallest_rank_sum_p,
    unpaired_shift_interval,
)

ALPHA = 0.02
"""The probability that a verdict calls equal things different."""
POWER = 0.95
"""The probability that the advised number of repeats settles a difference of the size seen."""
NORMAL_95 = normal_quantile(0.975)
"""Half the width of a 95 % interval, in standard errors."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    value: float
    low: float
    high: float
    count: int
    """The number of samples."""

    def text(self, unit: str = "") -> str:
        """``5.31× (5.24 to 5.40)``, with the digits that the interval supports."""
        decimals = supported_decimals(self.value, self.low, self.high)
        if self.low == self.high:
            return f"{self.value:.{decimals}f}{unit}"
        return f"{self.value:.{decimals}f}{unit} ({self.low:.{decimals}f} to {self.high:.{decimals}f})"

    def short(self, unit: str = "") -> str:
        return f"{self.value:.{supported_decimals(self.value, self.low, self.high)}f}{unit}"


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
    """The median of the ratios of samples that were taken side by side; disturbances of both cancel out."""
    if len(numerator) != len(denominator):
        raise ValueError(f"paired samples must be as many, got {len(numerator)} and {len(denominator)}")
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return bootstrap_median(ratios, level=level, seed=seed)


TRIMMED = 0.2


def trimmed_mean(samples: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean of the middle 60 % and its standard error, from the winsorized spread (Tukey and McLaughlin 1963).

    A few samples that something else disturbed move neither; with normal noise the error is a tenth above that of the
    mean.  Of one sample the error is ∞.

    >>> value, error = trimmed_mean([1.0, 1.1, 0.9, 1.0, 50.0])
    >>> round(value, 2), round(error, 2)
    (1.03, 0.04)
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    count, cut = len(ordered), int(TRIMMED * len(ordered))
    if count < 2:
        return float(ordered.mean()), math.inf
    kept = ordered[cut : count - cut]
    winsorized = np.clip(ordered, kept[0], kept[-1])
    return float(kept.mean()), float(winsorized.std(ddof=1)) / (len(kept) / count * math.sqrt(count))


def typical_side_by_side(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """A typical value of each arm, from rounds in which all were measured once.

    It is the trimmed mean of the logarithm of an arm's ratio to its round, times a typical round.  If the machine
    changes its speed half-way, plain medians of two equal arms may come from before and from after the change.

    >>> found = typical_side_by_side({"a": [1.0, 1.0, 3.0], "b": [1.1, 1.1, 3.3]})
    >>> round(found["b"] / found["a"], 6)
    1.1
    """
    logs = np.log(np.array(list(samples.values()), dtype=np.float64))
    # A round is the mean of its middle values: an outlier of one arm must not move the others, and a median, being
    # the value of one, would make exact ties.
    cut = 1 if len(logs) > 3 else 0
    rounds = np.sort(logs, axis=0)[cut : len(logs) - cut].mean(axis=0)
    level = float(np.median(rounds))
    return {name: math.exp(level + trimmed_mean(own)[0]) for name, own in zip(samples, logs - rounds, strict=True)}


def spread(samples: Sequence[float]) -> float:
    """The median deviation from the median, relative to it: 0.01 is quiet, above 0.05 the machine is busy."""
    values = np.asarray(samples, dtype=np.float64)
    middle = np.median(values)
    return float(np.median(np.abs(values - middle)) / middle)


# ------------------------------------------------------------------ comparisons


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two sets of samples of one quantity, and the ratio of the second to the first."""

    samples: tuple[Sequence[float], Sequence[float]] = dataclasses.field(repr=False)
    ratio: Estimate
    """Second over first; the interval is the one of the test, at the level of one verdict."""
    p: float
    """The p-value of "they are the same", corrected for the looks taken, but not for other comparisons of a table."""
    least: int
    """The fewest samples of each with which any difference could be significant."""
    repeats_needed: int | None
    """The samples of each that would settle a difference as large as this one; None if there is none."""

    @functools.cached_property
    def first(self) -> Estimate:
        """The median of the first, with its 95 % interval."""
        return bootstrap_median(self.samples[0])

    @functools.cached_property
    def second(self) -> Estimate:
        return bootstrap_median(self.samples[1])

    @property
    def differs(self) -> bool:
        """The verdict, if this is the only comparison."""
        return self.p <= ALPHA


def compare(
    first: Sequence[float], second: Sequence[float], *, paired: bool = True, looks: int = 1, family: int = 1
) -> Comparison:
    """Compares samples of positive quantities, times above all.

    ``paired`` samples were taken side by side, position by position; they are compared by Wilcoxon's signed-rank test
    on the logarithms of their ratios, other samples by the rank-sum test. ``looks`` is the number of times that the
    samples were or could have been looked at to decide whether to go on. ``family`` is the number of comparisons in the
    table.

    >>> found = compare([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.02], [2.0, 2.3, 1.9, 2.1, 2.0, 1.8, 2.1])
    >>> found.differs, found.ratio.short("×")
    (True, '2.0×')
    """
    if paired and len(first) != len(second):
        raise ValueError(f"paired samples must be as many, got {len(first)} and {len(second)}")
    if not first or not second:
        raise ValueError("a comparison needs at least one sample of each")
    if not all(0 < x < math.inf for x in (*first, *second)):
        raise ValueError("samples must be finite and > 0: ratios are compared")
    alpha = ALPHA / looks
    log_first, log_second = np.log(first), np.log(second)
    if paired:
        logs = log_second - log_first
        raw, least = signed_rank_p(logs.tolist()), least_pairs(alpha)
        middle, low, high = shift_interval(logs.tolist(), alpha)
    else:
        logs = (log_second[:, None] - log_first[None, :]).ravel()
        raw, least = rank_sum_p(first, second), _least_beside(max(len(first), len(second)), alpha)
        middle, low, high = unpaired_shift_interval(log_first.tolist(), log_second.tolist(), alpha)
    if not math.isfinite(low):
        low, high = float(logs.min()), float(logs.max())
    ratio = Estimate(math.exp(middle), math.exp(low), math.exp(high), min(len(first), len(second)))
    return Comparison((first, second), ratio, min(1.0, raw * looks), least, _repeats_needed(logs, alpha / family))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979); those ≤ ALPHA are verdicts that hold jointly.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    corrected, least = [0.0] * len(ps), 0.0
    for done, index in enumerate(order):
        least = max(least, min(1.0, (len(ps) - done) * ps[index]))
        corrected[index] = least
    return corrected


def sentence(
    first: str,
    second: str,
    found: Comparison,
    *,
    unit: str = "",
    corrected_p: float | None = None,
    better: str = "faster",
    worse: str = "slower",
) -> str:
    """Two samples in one sentence.

    ``corrected_p`` is the comparison's p after :func:`holm`, where it is one of many.

    >>> quick, slow = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.02], [2.0, 2.3, 1.9, 2.1, 2.0, 1.8, 2.1]
    >>> sentence("fused", "compiled", compare(quick, slow), unit=" ms")
    'fused is 2.0× faster than compiled (1.9 to 2.1): 1.00 against 2.0 ms'
    >>> sentence("a", "b", compare(quick[:3], slow[:3]))
    'a and b are not distinguishable: 3 samples of each cannot show any difference, at least 7 could'
    """
    p = found.p if corrected_p is None else corrected_p
    count = min(map(len, found.samples))
    if p > ALPHA:
        if count < found.least:
            return (
                f"{first} and {second} are not distinguishable: {count} samples of each cannot show any difference, "
                f"at least {found.least} could"
            )
        needed = found.repeats_needed
        more = ""
        if needed is not None:
            # An outlier can leave a comparison open that the usual spread would have settled.
            more = f"; about {needed:,} would settle it" if needed > count else "; a few more would settle it"
        return (
            f"{first} and {second} are not distinguishable (ratio {_range(found.ratio)}, {count} samples of each{more})"
        )
    word, ratio = (better, found.ratio) if found.ratio.value >= 1.0 else (worse, _inverse(found.ratio))
    return (
        f"{first} is {ratio.short('×')} {word} than {second} ({_range(ratio)}): "
        f"{found.first.short()} against {found.second.short(unit)}"
    )


def _least_beside(others: int, alpha: float) -> int:
    return next(count for count in itertools.count(1) if smallest_rank_sum_p(count, others) <= alpha or count > others)


def _repeats_needed(logs: np.ndarray, alpha: float) -> int | None:
    """From the normal approximation of the test's power, at the effect and the robust spread seen.

    Pairs and unpaired samples are treated the same, because in both cases the spread is that of one difference.
    """
    effect = abs(float(np.median(logs)))
    if len(logs) < 2 or effect == 0.0:
        return None
    deviation = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
    quantiles = normal_quantile(1 - alpha / 2) + normal_quantile(POWER)
    # π/3 is the loss of ranks against means under normal noise.
    return max(least_pairs(alpha), math.ceil(math.pi / 3 * (quantiles * deviation / effect) ** 2))


def _inverse(ratio: Estimate) -> Estimate:
    return Estimate(1 / ratio.value, 1 / ratio.high, 1 / ratio.low, ratio.count)


def _range(ratio: Estimate) -> str:
    decimals = supported_decimals(ratio.value, ratio.low, ratio.high)
    return f"{ratio.low:.{decimals}f} to {ratio.high:.{decimals}f}"
