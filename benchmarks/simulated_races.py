"""Thousands of simulated races at once, by the rule of `fallline.score.decision`.

The rule takes one look at one race; here all races of a case are arrays.  Some races of every case are also raced one
by one with the rule itself, and must come out the same (`held_against_the_rule`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from fallline.measure.student import t_quantile
from fallline.score.decision import LEADER, LEVEL, Look, Times, looks_up_to
from fallline.score.decision.evidence import WEIGHT
from fallline.score.decision.replay import of_times, replay
from fallline.score.decision.rule import margin
from fallline.score.decision.schedule import level_of

SIGMA, CORRELATION = 0.055, 0.25
"""The noise of log steps to target on `chars` with fixed settings, and its correlation under common draws."""
GRID = 0.06
"""The interval between evaluations of `chars`, over the time to its target."""
Noise = Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]
"""Unit noise of races × contestants × studies."""
quantile = functools.cache(t_quantile)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of every look at every race: looks × races (× contestants)."""

    sizes: Sequence[int]
    racing: np.ndarray
    choice: np.ndarray
    bound: np.ndarray
    decided: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """The look at which each race ended; the last one for those that were not decided."""
        return np.where(self.decided.any(axis=0), self.decided.argmax(axis=0), len(self.sizes) - 1)

    def at_end(self, values: np.ndarray) -> np.ndarray:
        return values[self.last, np.arange(values.shape[1])]

    @property
    def trials(self) -> np.ndarray:
        """How many were run by the end of each race."""
        before = np.concatenate([np.ones_like(self.racing[:1]), self.racing[:-1]])
        added = np.diff([0, *self.sizes])[:, None] * before.sum(axis=2)
        return np.take_along_axis(added.cumsum(axis=0), self.last[None], axis=0)[0]


def race(
    y: np.ndarray,
    *,
    within: float = 0.05,
    until: str | None = None,
    level: float = LEVEL,
    floor: float = 0.0,
    weight: float = WEIGHT,
) -> Outcome:
    """All races to their last study, also those that are decided: what was decided stays as it was."""
    races, contestants, studies = y.shape
    sizes = looks_up_to(studies)
    racing = np.ones((races, contestants), bool)
    left_squares, left_freedom = np.zeros(races), np.zeros(races)
    wanted, found = margin(within, relative=True), []
    for number, n in enumerate(sizes, 1):
        alpha, table = level_of(number, level), y[:, :, :n]
        squares = _squares(table, racing)
        freedom = (racing.sum(axis=1) - 1) * (n - 1) + left_freedom
        pooled = (squares + left_squares) / np.maximum(freedom, 1)
        means = np.where(racing, table.mean(axis=2), np.inf)
        choice = means.argmin(axis=1)
        every = np.arange(races)
        difference = table - table[every, choice][:, None]
        gap = difference.mean(axis=2)
        own = ((difference - gap[:, :, None]) ** 2).sum(axis=2) / 2
        variance = np.maximum((weight * pooled[:, None] + own) / (weight + n - 1), floor**2)
        error = np.sqrt(2 * variance / n)
        known = np.minimum(weight + n - 1, freedom)
        others = racing.copy()
        others[every, choice] = False
        before = racing.copy()
        while True:
            k = racing.sum(axis=1)
            reach = _quantiles(alpha / np.maximum(1, k * (k - 1)), known)[:, None] * error
            out = others & racing & (gap > reach)
            if not out.any():
                break
            racing = racing & ~out
        left_squares = left_squares + squares - _squares(table, racing)
        left_freedom = left_freedom + (before.sum(axis=1) - racing.sum(axis=1)) * (n - 1)
        k = racing.sum(axis=1)
        reach = _quantiles(alpha / np.maximum(1, k - 1), known)[:, None] * error - gap
        bound = np.maximum(0.0, np.where(others & racing, reach, 0.0).max(axis=1))
        decided = (k == 1) | ((bound <= wanted) & (until != LEADER))
        found.append((racing, choice, bound, decided))
    return Outcome(sizes, *(np.array(part) for part in zip(*found, strict=True)))


def _squares(table: np.ndarray, racing: np.ndarray) -> np.ndarray:
    """About the means of contestants and of studies, of those in contention."""
    mask = racing[:, :, None]
    count = racing.sum(axis=1)[:, None]
    studies = (table * mask).sum(axis=1) / count
    rest = table - table.mean(axis=2, keepdims=True) - (studies - studies.mean(axis=1, keepdims=True))[:, None]
    return ((rest * mask) ** 2).sum(axis=(1, 2))


def _quantiles(tails: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
    pairs, places = np.unique(np.stack([tails, freedoms]), axis=1, return_inverse=True)
    values = [quantile(float(tail), float(freedom)) if freedom > 0 else math.inf for tail, freedom in pairs.T]
    return np.array(values)[places.ravel()]


def held_against_the_rule(y: np.ndarray, outcome: Outcome, *, floor: float = 0.0, until: str | None = None) -> bool:
    """Whether the rule itself, raced one by one, says the same of these races."""
    names = [str(place) for place in range(y.shape[1])]
    for index, table in enumerate(y):
        times = Times(dict(zip(names, table, strict=True)), floor=floor)
        looks = replay(of_times(times), names, outcome.sizes, until=until)
        if len(looks) != outcome.last[index] + 1 or not all(
            _same(look, outcome, place, index) for place, look in enumerate(looks)
        ):
            return False
    return True


def _same(look: Look, outcome: Outcome, place: int, index: int) -> bool:
    racing = {str(name) for name in np.flatnonzero(outcome.racing[place, index])}
    assert look.bound is not None
    return (
        set(look.racing) == racing
        and look.choice == str(outcome.choice[place, index])
        and math.isclose(look.bound, outcome.bound[place, index], rel_tol=1e-9, abs_tol=1e-12)
        and (look.decided is not None) == bool(outcome.decided[place, index])
    )


# ------------------------------------------------------------------ noise


def normal(generator: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    return generator.standard_normal(shape)


def heavy_tailed(generator: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Student's with 5 degrees of freedom, of variance 1."""
    return generator.standard_t(5, shape) / math.sqrt(5 / 3)


def skewed(generator: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """A gamma distribution of shape 2 about its mean: its skewness is 1.4."""
    return (generator.standard_gamma(2.0, shape) - 2.0) / math.sqrt(2)


def unequal(generator: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Every contestant has a variance of its own, an inverse χ² with 4 degrees of freedom."""
    scale = np.sqrt(4.0 / generator.chisquare(4, shape[:2]))
    return scale[:, :, None] * generator.standard_normal(shape)


def draw(
    generator: np.random.Generator,
    races: int,
    gaps: Sequence[float],
    studies: int,
    noise: Noise = normal,
    *,
    sigma: float = SIGMA,
    correlation: float = CORRELATION,
) -> np.ndarray:
    """Logarithms of times: the gaps, luck that all share in a study, and each one's own."""
    own = noise(generator, (races, len(gaps), studies))
    common = generator.standard_normal((races, 1, studies))
    luck = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    return np.asarray(gaps)[None, :, None] + sigma * luck


def on_grid(y: np.ndarray, grid: float = GRID) -> np.ndarray:
    """Times as they are read off at evaluations."""
    return np.log(np.ceil(np.exp(y) / grid) * grid)
