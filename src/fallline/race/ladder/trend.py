"""The trend of advantages along a ladder, and how far it can be extended.

An advantage is a contestant's distance to the reference on one rung: the logarithm of a ratio of times, or a difference
of metrics; positive is better.  With x = log₂(rung), counted from the last rung, the model of a contestant's own level is

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

LEVEL = 0.95
"""Of the intervals."""
MOST_DOUBLINGS = 2.0
"""However long a ladder is, its trend is not extended farther: no published table could be used to check that."""

SLOPE_SCALE, RATIO_SCALE, WANDER_SCALE, NOISE_SCALE = 0.1, 0.5, 1.0, 1.0
"""The widths of the priors, all but the ratio's in units of a typical change from rung to rung: chosen on one published
table by the density that predictions give to the later cells, and confirmed on another (``benchmarks/ladder_checks``)."""
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25)
SLOPES = (0.02, 0.06, 0.12, 0.25)
SIZES = (0.07, 0.2, 0.5, 1.0, 1.8)
NOISE_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6, 2.2)
"""By how much a noise that was estimated from few studies may be off."""
NEGLIGIBLE = 1e-6
"""Of the weight of a grid point."""


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
    noise_share: float
    """The part of the variance at the first of these rungs that noise is to blame for: more studies would remove it."""

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
    mixture = _posterior(known, x, asked, wanted)
    return [_trend(mixture, index, name, len(x)) for index, name in enumerate(known.contestants)]


@dataclasses.dataclass(frozen=True)
class _Mixture:
    """A normal distribution for each point of the grid: points × quantities × contestants."""

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    noise: np.ndarray
    """The part of the variances that is noise's."""


def _posterior(known: Advantages, x: np.ndarray, asked: np.ndarray, wanted: np.ndarray) -> _Mixture:
    present = ~np.isnan(known.values)
    who, rung = np.nonzero(present)
    values, at = known.values[present], x[rung]
    shared = (who[:, None] == who) + 1.0  # the reference is in all of them
    shared_asked = (who[:, None] == np.arange(len(known.contestants))) + 1.0
    change, level = _typical_change(known.values, x), math.sqrt(float(np.mean(known.values[:, -1] ** 2)) / 2)
    smallest = 1e-9 * max(level, change, 1e-9)
    change, level = max(change, smallest), max(level, smallest)
    noise, factors, penalty = _noise(known, change)
    found: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []
    for ratio, slope, wander, factor in itertools.product(RATIOS, SLOPES, SIZES, factors):
        kernel = _Kernel(level, ratio, slope * change, wander * change)
        errors = factor**2 * noise[np.ix_(rung, rung)]
        if known.noise is None:
            errors = errors * ratio ** np.add.outer(at, at)
        covariance = shared * (kernel(at, at) + errors) + (1e-6 * change) ** 2 * np.eye(len(at))
        root = np.linalg.cholesky(covariance)
        white = np.linalg.solve(root, values)
        weight = -np.log(np.diag(root)).sum() - 0.5 * white @ white + penalty(factor)
        weight += _log_normal(math.log(ratio), RATIO_SCALE) + _log_size(slope, SLOPE_SCALE)
        weight += _log_size(wander, WANDER_SCALE)
        # One column of cross-covariances per contestant and wanted quantity.
        cross = shared_asked[:, :, None] * (kernel(at, asked) @ wanted.T)[:, None, :]
        solved = np.linalg.solve(covariance, cross.reshape(len(at), -1)).reshape(cross.shape)
        prior = np.einsum("qa,ab,qb->q", wanted, kernel(asked, asked), wanted)
        mean = np.einsum("ncq,n->cq", solved, values)
        variance = 2 * prior - np.einsum("ncq,ncq->cq", cross, solved)
        from_noise = np.einsum("ncq,nm,mcq->cq", solved, shared * errors, solved)
        found.append((float(weight), mean.T, variance.T, from_noise.T))
    logs = np.array([each[0] for each in found])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kept = weights > NEGLIGIBLE
    means, variances, noises = (np.array([each[part] for each in found])[kept] for part in (1, 2, 3))
    return _Mixture(weights[kept] / weights[kept].sum(), means, np.maximum(variances, 0.0), noises)


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The covariance of one contestant's own levels at two places."""

    level: float
    ratio: float
    slope: float
    wander: float

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a[:, None], b[None, :]
        walked = np.where(np.sign(a) * np.sign(b) > 0, np.minimum(np.abs(a), np.abs(b)), 0.0)
        return self.ratio ** (a + b) * (self.level**2 + self.slope**2 * a * b + self.wander**2 * walked)


def _typical_change(values: np.ndarray, x: np.ndarray) -> float:
    """Of one contestant's own level with a doubling, were it a random walk; an advantage has two of them."""
    changes = np.diff(values, axis=1) / np.sqrt(np.diff(x))
    there = changes[np.isfinite(changes)]
    return math.sqrt(float(np.mean(there**2)) / 2) if len(there) else 0.0


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


def _trend(mixture: _Mixture, index: int, name: str, rungs: int) -> Trend:
    guesses = [
        _guess(mixture.weights, mixture.means[:, quantity, index], np.sqrt(mixture.variances[:, quantity, index]))
        for quantity in range(mixture.means.shape[1])
    ]
    quantity = min(rungs, len(guesses) - 2)  # the first rung ahead, or the last one
    means = mixture.means[:, quantity, index]
    total = mixture.weights @ (mixture.variances[:, quantity, index] + means**2) - (mixture.weights @ means) ** 2
    share = float(mixture.weights @ mixture.noise[:, quantity, index] / total) if total > 0 else 0.0
    return Trend(name, tuple(guesses[:rungs]), guesses[-1], tuple(guesses[rungs:-1]), min(1.0, share))


def _guess(weights: np.ndarray, means: np.ndarray, errors: np.ndarray) -> Guess:
    tail = (1 - LEVEL) / 2
    low, high = (_quantile(weights, means, errors, share) for share in (tail, 1 - tail))
    return Guess(float(weights @ means), low, high, 1 - _below(0.0, weights, means, errors))


def _below(value: float, weights: np.ndarray, means: np.ndarray, errors: np.ndarray) -> float:
    scaled = (value - means) / np.maximum(errors, 1e-300) / math.sqrt(2)
    return float(weights @ [0.5 * math.erfc(-z) for z in np.clip(scaled, -30, 30)])


def _quantile(weights: np.ndarray, means: np.ndarray, errors: np.ndarray, share: float) -> float:
    low, high = float(np.min(means - 9 * errors)), float(np.max(means + 9 * errors))
    for _ in range(60):
        middle = (low + high) / 2
        if _below(middle, weights, means, errors) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
