"""The trend of advantages along a ladder, and how far it can be extended.

An advantage is a contestant's distance to the reference on one rung: the logarithm of a ratio of times, or a
difference of metrics; positive is better.  With x = log₂(rung), counted from the last rung, a contestant's result is

    ρˣ · (level + slope · x + wander(x))  +  noise,

and an advantage is the difference of two of them, so that the reference is a contestant like the others.

* **ρ is common**: all differences, and their irregularities, shrink or grow by one factor with every doubling.
* **Slopes** of single contestants are shrunk towards that common trend: a line of its own for each contestant, through
  the two or three rungs that there are, predicts worse than no trend at all (docs/ladder.md).
* **Wander** is a random walk: advantages change irregularly from rung to rung, and farther ahead the more.
* **Noise** is the error of a mean over studies; its size is given, or estimated with the rest.

The sizes of all parts are learnt from all contestants together, and integrated over a grid, not fixed at their best
values: from four contestants on three rungs they are known badly, and intervals must say so.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

LEVEL = 0.95
"""The level of the intervals."""
MOST_DOUBLINGS = 2.0
"""However long a ladder is, its trend is not extended farther: no published table could be used to check that."""

SLOPE_SCALE, RATIO_SCALE, WANDER_SCALE, NOISE_SCALE = 0.1, 0.5, 1.0, 1.0
"""The widths of the priors, all but the ratio's in units of a typical change from rung to rung.  They were chosen on
one published table, by the density that predictions give to later cells, and confirmed on another: docs/ladder.md."""
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25)
SLOPES = (0.02, 0.06, 0.12, 0.25)
SIZES = (0.07, 0.2, 0.5, 1.0, 1.8)
NOISE_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6, 2.2)
"""By how much a noise that was estimated from few studies may be off."""
NEGLIGIBLE = 1e-6
"""A grid point of a smaller weight is left out."""
LEAST_CHANGE, ROUNDING = 1e-3, 1e-5
"""The least change with a doubling, relative to advantages, and an error that all of them have: without any, rungs that
agree exactly would leave nothing to compute with."""


@dataclasses.dataclass(frozen=True)
class Advantages:
    """Advantages over the reference: contestants × rungs."""

    contestants: tuple[str, ...]
    """Without the reference, whose advantage is 0 everywhere."""
    rungs: tuple[float, ...]
    """Increasing, at least two."""
    values: np.ndarray
    """NaN where there is none; everybody has one at the last rung."""
    noise: np.ndarray | None = None
    """Rungs × rungs: the covariance of one contestant's own means; an advantage has twice that, half of it from the
    reference and so common to all.  None: estimated from the irregularity of the values."""
    degrees: float = math.inf
    """Degrees of freedom of the noise."""


@dataclasses.dataclass(frozen=True)
class Guess:
    """A quantity that is not known exactly."""

    mean: float
    low: float
    high: float
    positive: float
    """The probability that it is above 0."""


@dataclasses.dataclass(frozen=True)
class Trend:
    """A contestant's advantage over the reference along the ladder."""

    contestant: str
    rungs: tuple[Guess, ...]
    """At every rung, with all that the other rungs and contestants say."""
    change: Guess
    """From the first rung to the last, per doubling."""
    ahead: tuple[Guess, ...]
    """At the rungs that were asked for."""

    @property
    def last(self) -> Guess:
        return self.rungs[-1]


def farthest(rungs: Sequence[float]) -> float:
    """The last rung to which a trend is extended: half of the ladder's length beyond its end, in doublings.

    >>> farthest([0.5, 1, 2]), farthest([1, 2]), farthest([1, 2, 4, 8, 16, 32])
    (4.0, 2.8284271247461903, 128.0)
    """
    doublings = min(MOST_DOUBLINGS, math.log2(rungs[-1] / rungs[0]) / 2)
    return float(rungs[-1] * 2**doublings)


def trends(known: Advantages, ahead: Sequence[float]) -> list[Trend]:
    """The trend of every contestant; ``ahead`` are rungs beyond the last."""
    if len(known.rungs) < 2:
        raise ValueError(f"a trend needs at least two rungs, got {list(known.rungs)}")
    if not np.isfinite(known.values[:, -1]).all():
        raise ValueError("a trend is extended from the last rung: everybody needs a value there")
    if not known.contestants:
        return []
    x = np.log2(np.array(known.rungs) / known.rungs[-1])
    asked = np.array([*x, *(math.log2(rung / known.rungs[-1]) for rung in ahead)])
    # All rungs, then the change per doubling.
    wanted = np.vstack([np.eye(len(asked)), np.zeros(len(asked))])
    wanted[-1, [0, len(x) - 1]] = np.array([-1.0, 1.0]) / -x[0]
    return _trends(_posterior(known, x, asked, wanted), known.contestants, len(x))


@dataclasses.dataclass(frozen=True)
class _Mixture:
    """A normal distribution for each point of the grid: points × quantities × contestants."""

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray


def _posterior(known: Advantages, x: np.ndarray, asked: np.ndarray, wanted: np.ndarray) -> _Mixture:
    """All points of the grid at once; arrays begin with them."""
    present = ~np.isnan(known.values)
    who, rung = np.nonzero(present)
    values, at = known.values[present], x[rung]
    shared = (who[:, None] == who) + 1.0  # the reference is in all of them
    shared_asked = (who[:, None] == np.arange(len(known.contestants))) + 1.0
    level, change = _typical_sizes(known)
    noise, factors, penalty = _noise(known, change)
    grid = np.array(list(itertools.product(RATIOS, SLOPES, SIZES, factors)))
    ratio, slope, wander, factor = (part[:, None, None] for part in grid.T)
    kernel = _Kernel(level, ratio, slope * change, wander * change)
    errors = factor**2 * noise[np.ix_(rung, rung)]
    if known.noise is None:  # then noise shrinks with the rest
        errors = errors * ratio ** np.add.outer(at, at)
    covariance = shared * (kernel(at, at) + errors) + (ROUNDING * (level + change)) ** 2 * np.eye(len(at))
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, np.broadcast_to(values[:, None], (len(grid), len(at), 1)))[..., 0]
    logs = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) - 0.5 * (white**2).sum(axis=1)
    logs += [
        _log_normal(math.log(r), RATIO_SCALE) + _log_size(s, SLOPE_SCALE) + _log_size(w, WANDER_SCALE) + penalty(f)
        for r, s, w, f in grid.tolist()
    ]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kept = weights > NEGLIGIBLE
    # One column of cross-covariances per contestant and wanted quantity.
    cross = shared_asked[:, :, None] * (kernel(at, asked)[kept] @ wanted.T)[:, :, None, :]
    solved = np.linalg.solve(covariance[kept], cross.reshape(len(cross), len(at), -1)).reshape(cross.shape)
    prior = np.einsum("qa,pab,qb->pq", wanted, kernel(asked, asked)[kept], wanted)
    means = np.einsum("pncq,n->pqc", solved, values)
    variances = 2 * prior[:, :, None] - np.einsum("pncq,pncq->pqc", cross, solved)
    return _Mixture(weights[kept] / weights[kept].sum(), means, np.maximum(variances, 0.0))


def _typical_sizes(known: Advantages) -> tuple[float, float]:
    """Typical sizes of a contestant's own level, and of its change with a doubling, were that a random walk.

    An advantage has two of them.  Where rungs agree by luck, a change is not taken for smaller than noise allows.
    """
    level = math.sqrt(float(np.mean(known.values[:, -1] ** 2)) / 2)
    change = math.sqrt(_squared_change(known))
    seen = 0.0 if known.noise is None else math.sqrt(float(np.mean(np.diag(known.noise))))
    return max(level, 1e-12), max(change, LEAST_CHANGE * max(level, 1e-12), seen / 2)


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The covariance of one contestant's own levels at two places."""

    level: float
    ratio: np.ndarray
    slope: np.ndarray
    wander: np.ndarray
    """Grid points × 1 × 1."""

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a[:, None], b[None, :]
        walked = np.where(np.sign(a) * np.sign(b) > 0, np.minimum(np.abs(a), np.abs(b)), 0.0)
        size: np.ndarray = self.level**2 + self.slope**2 * a * b + self.wander**2 * walked
        return size * self.ratio ** (a + b)


def _squared_change(known: Advantages) -> float:
    changes = np.diff(known.values, axis=1) / np.sqrt(np.diff(np.log2(known.rungs)))
    there = changes[np.isfinite(changes)]
    return float(np.mean(there**2)) / 2 if len(there) else 0.0


def noise_share(known: Advantages) -> float:
    """The part of the changes from rung to rung that noise explains: it is what more studies would take away."""
    if known.noise is None:
        return 0.0
    between = np.diag(known.noise)[:-1] + np.diag(known.noise)[1:] - 2 * np.diag(known.noise, 1)
    explained = float(np.mean(between / np.diff(np.log2(known.rungs))))
    return min(1.0, explained / max(_squared_change(known), 1e-300))


Noise = tuple[np.ndarray, Sequence[float], Callable[[float], float]]


def _noise(known: Advantages, change: float) -> Noise:
    """The covariance of noise, the factors that it may be off by, and their log weights."""
    if known.noise is None:
        return change**2 * np.eye(len(known.rungs)), SIZES, lambda factor: _log_size(factor, NOISE_SCALE)
    if math.isinf(known.degrees):
        return known.noise, (1.0,), lambda factor: 0.0
    # A variance that was estimated with so many degrees of freedom.
    half = known.degrees / 2
    return known.noise, NOISE_FACTORS, lambda factor: -half / factor**2 - 2 * half * math.log(factor)


def _log_size(size: float, scale: float) -> float:
    """A half-normal prior, on a grid that is even in the logarithm."""
    return _log_normal(size, scale) + math.log(size)


def _log_normal(value: float, scale: float) -> float:
    return -0.5 * (value / scale) ** 2


def _trends(mixture: _Mixture, names: Sequence[str], rungs: int) -> list[Trend]:
    tail = (1 - LEVEL) / 2
    mean = np.einsum("p,pqc->qc", mixture.weights, mixture.means)
    low, high = (_quantile(mixture, share) for share in (tail, 1 - tail))
    positive = np.clip(1 - _below(mixture, np.zeros_like(mean)), 0.0, 1.0)
    made = []
    for index, name in enumerate(names):
        parts = (part[:, index].tolist() for part in (mean, low, high, positive))
        guesses = [Guess(*each) for each in zip(*parts, strict=True)]
        made.append(Trend(name, tuple(guesses[:rungs]), guesses[-1], tuple(guesses[rungs:-1])))
    return made


def _below(mixture: _Mixture, values: np.ndarray) -> np.ndarray:
    """The probability of less than a value, for every quantity of every contestant."""
    scaled = (values - mixture.means) / np.maximum(np.sqrt(mixture.variances), 1e-300)
    return np.einsum("p,pqc->qc", mixture.weights, torch.special.ndtr(torch.from_numpy(scaled)).numpy())


def _quantile(mixture: _Mixture, share: float) -> np.ndarray:
    errors = np.sqrt(mixture.variances)
    low, high = (mixture.means - 9 * errors).min(axis=0), (mixture.means + 9 * errors).max(axis=0)
    for _ in range(50):
        middle = (low + high) / 2
        short = _below(mixture, middle) < share
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return (low + high) / 2
