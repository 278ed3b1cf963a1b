"""Numbers by contestant and study turned into differences with errors, for one workload.

Smaller is better: logarithms of times to target, or of a loss.  A race has few studies, so the noise of a pair is
*moderated*: it counts as if it had been seen ``n − 1`` times in the pair itself and ``WEIGHT`` times in all contestants
together (Smyth 2004).  Noise that is pooled alone errs where contestants scatter differently, and noise of the pair
alone decides nothing with three studies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

WEIGHT = 6.0
"""Degrees of freedom that the common noise of all contestants stands for in the noise of a pair."""
MISS_FACTOR = 4.0
"""A miss counts as the budget where its contestant would be called slower, and as so many budgets where it would be
called faster: τ_max of the score, beyond which a time is a miss whatever it is."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far one contestant is behind another."""

    gap: float
    noise: float
    """The variance of one study's difference."""
    studies: int
    fixed: float
    """The variance that more studies do not lower: that of the ratio of step times."""
    freedom: float

    def error(self, studies: int | None = None) -> float:
        """The standard error, with as many studies as there are or as there might be."""
        return math.sqrt(self.noise / (studies or self.studies) + self.fixed)

    def freedom_with(self, studies: int) -> float:
        return self.freedom + max(0, studies - self.studies)


@dataclasses.dataclass(frozen=True)
class Count:
    """How the studies of a contestant ended."""

    studies: int
    reached: int
    crashed: int


class Evidence(Protocol):
    """Everything that the rule asks of the data."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def relative(self) -> bool:
        """Whether gaps are logarithms of ratios; otherwise they are differences as they stand."""

    def count(self, name: str) -> Count: ...

    def best(self, racing: Collection[str]) -> str | None:
        """The one to take of those in contention; None if nobody reached anything."""

    def difference(self, name: str, than: str) -> Difference | None:
        """How far ``name`` is behind ``than``; None where nothing is known of the noise."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Numbers of one workload, smaller is better.  A study has common draws whoever runs it, if ``paired``.

    Contestants may have run the first few studies only: they left, or joined later.
    """

    values: Mapping[str, Sequence[float]]
    """A number per study, from the first; ∞ (or NaN) where it missed."""
    miss: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """The value of a miss where its contestant would be called slower: the logarithm of its budget."""
    crashed: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Misses that crashed."""
    floor: float = 0.0
    """The least standard deviation: a time read off at evaluations is not known better, though many be equal."""
    ratio_errors: Mapping[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """(a, b) → the relative standard error of the ratio of their step times; a pair and its reverse are the same."""
    paired: bool = True
    relative: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    @functools.cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        rows = {name: np.array(values, dtype=np.float64) for name, values in self.values.items()}
        for row in rows.values():
            row[np.isnan(row)] = math.inf
        return rows

    @functools.cached_property
    def _missed(self) -> dict[str, bool]:
        return {name: not bool(np.isfinite(row).all()) for name, row in self._rows.items()}

    def count(self, name: str) -> Count:
        row = self._rows[name]
        return Count(len(row), int(np.isfinite(row).sum()), self.crashed.get(name, 0))

    # ------------------------------------------------------------------ noise

    @functools.cached_property
    def noise(self) -> tuple[float, float]:
        """The common variance of one study of one contestant, and its degrees of freedom; misses have none."""
        whole = [row for name, row in self._rows.items() if not self._missed[name] and len(row) > 1]
        if len(whole) > 1 and self.paired:
            return _mean_square(_staircase_squares(whole), sum(map(len, whole)) - len(whole) + 1 - max(map(len, whole)))
        # For one that never missed, or for nobody: what was reached says how far studies scatter, luck in common and
        # all.
        reached = [row[np.isfinite(row)] for row in self._rows.values()]
        rows = whole if whole and not self.paired else [row for row in reached if len(row) > 1]
        return _mean_square(sum(_squares(row) for row in rows), sum(len(row) - 1 for row in rows))

    # ------------------------------------------------------------------ differences

    def difference(self, name: str, than: str) -> Difference | None:
        pooled, freedom = self.noise
        if freedom <= 0.0:
            return None
        first, second = self._rows[name], self._rows[than]
        studies = min(len(first), len(second))
        if studies == 0:
            return None
        first, second = first[:studies], second[:studies]
        own = studies - 1
        if self._missed[name] or self._missed[than]:
            gap = float(self._cautious(name, than, first, second).mean())
            variance, known = pooled, freedom
        else:
            gaps = first - second
            gap = float(gaps.mean())
            squares = _squares(gaps) if self.paired else _squares(first) + _squares(second)
            variance = (WEIGHT * pooled + 0.5 * squares) / (WEIGHT + own)
            known = min(WEIGHT + own, freedom)
        variance = max(variance, self.floor**2)
        error = self.ratio_errors.get((name, than), self.ratio_errors.get((than, name), 0.0))
        return Difference(gap, 2.0 * variance, studies, error**2, known)

    def _cautious(self, name: str, than: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Differences in which misses speak for ``name`` as far as they may."""
        least = np.where(np.isinf(first), self.miss.get(name, math.inf), first)
        most = np.where(np.isinf(second), self.miss.get(than, math.inf) + math.log(MISS_FACTOR), second)
        both = np.isinf(first) & np.isinf(second)
        with np.errstate(invalid="ignore"):
            return np.where(both, 0.0, least - most)

    def best(self, racing: Collection[str]) -> str | None:
        reached = {name for name in racing if self.count(name).reached}
        if not reached:
            return None
        longest = max(len(self._rows[name]) for name in reached)
        places = {
            name: (self._mean_beside(name, [n for n in reached if len(self._rows[n]) == longest]), self.count(name))
            for name in reached
        }
        return min(places, key=lambda name: (places[name][0], places[name][1].crashed, self.names.index(name)))

    def _mean_beside(self, name: str, others: Sequence[str]) -> float:
        """The mean, at what the studies that it did not run were for the others."""
        row = self._full(name)
        if name in others:  # exactly: equal times are equal
            return float(row.mean())
        beside = np.mean([self._full(other) for other in others], axis=0)
        return float(row.mean() + beside.mean() - beside[: len(row)].mean())

    def _full(self, name: str) -> np.ndarray:
        row = self._rows[name]
        return np.where(np.isinf(row), self.miss.get(name, math.inf) + math.log(MISS_FACTOR), row)


def pair_errors(errors: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """Errors of ratios from those of single step times, which are then taken for independent."""
    names = list(errors)
    return {(a, b): math.hypot(errors[a], errors[b]) for place, a in enumerate(names) for b in names[place + 1 :]}


def _squares(values: np.ndarray) -> float:
    centred = values - values.mean()
    return float(centred @ centred)


def _staircase_squares(rows: Sequence[np.ndarray]) -> float:
    """The squares about the means of contestants and of studies, where some have run the first studies only.

    Each time contestants end, the table up to there gives what it holds more than the table without them: these parts
    are independent, and together they have one degree of freedom for every study but the first of every contestant but
    one.
    """
    total = 0.0
    for length in sorted({len(row) for row in rows}):
        total += _both_means_out([row[:length] for row in rows if len(row) >= length])
        total -= _both_means_out([row[:length] for row in rows if len(row) > length])
    return max(0.0, total)


def _both_means_out(rows: Sequence[np.ndarray]) -> float:
    if len(rows) < 2:
        return 0.0
    table = np.array(rows)
    table = table - table.mean(axis=0)
    table -= table.mean(axis=1, keepdims=True)
    return float((table * table).sum())


def _mean_square(squares: float, freedom: float) -> tuple[float, float]:
    return (squares / freedom, float(freedom)) if freedom > 0 else (math.inf, 0.0)
