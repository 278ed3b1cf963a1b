"""Quasirandom search as in AlgoPerf: one scrambled van der Corput sequence per hyperparameter.

The digits of each sequence are permuted and its values shifted by numbers drawn from its base, so the points are the
same everywhere.  Bases are large primes on purpose: with few points of many dimensions small ones would leave
stripes.  Reference: Bousquet et al. 2017, Critical hyper-parameters: no random, no cry (arXiv 1706.03200).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SKIP = 100
"""The first points of neighbouring bases are correlated; they are left out."""

BLOCK = 5
"""Studies that share a block of points, as AlgoPerf's five do; the next five get the next points."""

Dimension = Mapping[str, Any]
"""``{"min": …, "max": …, "scaling": "log" | "linear"}`` or ``{"feasible_points": […]}``."""


class BadSpace(ValueError):
    """A search space that cannot be searched."""


def primes_below(limit: int) -> list[int]:
    """Odd primes.

    >>> primes_below(12)
    [3, 5, 7, 11]
    """
    return [n for n in range(3, limit, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2))]


def bases(dimensions: int) -> list[int]:
    """The largest primes below 1000, without the very largest.

    >>> bases(3)
    [977, 983, 991]
    """
    found = primes_below(1000)
    if dimensions >= len(found):
        raise BadSpace(f"a search space has at most {len(found) - 1} dimensions, got {dimensions}")
    return found[-dimensions - 1 : -1]


def van_der_corput(base: int, first: int, count: int) -> np.ndarray:
    """Elements ``first`` (counted from 0) and following of the scrambled sequence of a base."""
    random = np.random.RandomState(base)
    order = list(range(1, base))
    random.shuffle(order)
    digits = np.array([0, *order])
    shift = random.random_sample()
    index = np.arange(first + 1, first + count + 1)
    values, denominator = np.zeros(count), base
    while index.any():
        values += digits[index % base] / denominator
        denominator *= base
        index //= base
    return np.fmod(values + shift, 1.0)


@functools.lru_cache(maxsize=64)
def sequence(dimensions: int, first: int, count: int) -> np.ndarray:
    """count × dimensions numbers in [0, 1); the studies of a block share them, so they are kept."""
    if dimensions == 0:
        return np.zeros((count, 0))
    return np.stack([van_der_corput(base, SKIP + first, count) for base in bases(dimensions)], axis=1)


def value(dimension: Dimension, u: float) -> Any:
    """A hyperparameter from a number in [0, 1).

    >>> round(value({"min": 1e-4, "max": 1e-2, "scaling": "log"}, 0.5), 9), value({"feasible_points": [1, 2, 3]}, 0.67)
    (0.001, 3)
    """
    if "feasible_points" in dimension:
        points = dimension["feasible_points"]
        return points[math.floor(u * len(points))]
    low, high = dimension["min"], dimension["max"]
    if with_scaling(dimension)["scaling"] == "log":
        return low * math.exp(u * math.log(high / low))
    return low + u * (high - low)


DECADE = 10.0
"""A range this wide is searched on a log scale unless its scaling is given."""


def with_scaling(dimension: Dimension) -> Dimension:
    """A range whose scaling is given; by default "log" from min > 0 over a factor of ten and more, else "linear".

    >>> with_scaling({"min": 1e-4, "max": 1e-2})["scaling"], with_scaling({"min": 0.8, "max": 0.95})["scaling"]
    ('log', 'linear')
    """
    if not isinstance(dimension, Mapping) or "scaling" in dimension or not {"min", "max"} <= set(dimension):
        return dimension
    low, high = dimension["min"], dimension["max"]
    numbers = all(isinstance(x, int | float) for x in (low, high))
    wide = numbers and low > 0 and high >= DECADE * low
    return {**dimension, "scaling": "log" if wide else "linear"}


def check(space: Mapping[str, Dimension], where: str) -> None:
    """Refuses what cannot be searched, naming the hyperparameter and the remedy."""
    for name, dimension in space.items():
        if not isinstance(dimension, Mapping):
            raise BadSpace(f"{where}: {name} must be a table with min and max, got {dimension!r}")
        if "feasible_points" in dimension:
            if not isinstance(dimension["feasible_points"], list | tuple) or not dimension["feasible_points"]:
                raise BadSpace(f"{where}: {name}: feasible_points must be a list of at least one value")
            continue
        missing = [key for key in ("min", "max") if key not in dimension]
        if missing:
            raise BadSpace(f"{where}: {name}: {' and '.join(missing)} missing; give min and max, or feasible_points")
        low, high, scaling = dimension["min"], dimension["max"], with_scaling(dimension)["scaling"]
        if scaling not in ("log", "linear"):
            raise BadSpace(f'{where}: {name}: scaling must be "log" or "linear", got {scaling!r}')
        if not all(isinstance(x, int | float) and math.isfinite(x) for x in (low, high)):
            raise BadSpace(f"{where}: {name}: min and max must be numbers, got {low!r} and {high!r}")
        if low > high:
            raise BadSpace(f"{where}: {name}: min {low:g} is above max {high:g}; exchange them")
        if scaling == "log" and low <= 0:
            raise BadSpace(f'{where}: {name}: min must be > 0 for scaling = "log", got {low:g}')


def study_points(
    space: Mapping[str, Dimension], *, trials: int, study: int, seed: int, studies_per_block: int = BLOCK
) -> list[dict[str, Any]]:
    """The points of one study.

    A block of ``trials × studies_per_block`` points is dealt to its studies; more studies get more blocks, and those
    dealt before stay as they were.  Another seed shifts the whole block once more, modulo 1, and deals it otherwise;
    with seed 0 there is no further shift, and a block holds AlgoPerf's own points.
    """
    block, place = divmod(study, studies_per_block)
    size = trials * studies_per_block
    unit = sequence(len(space), block * size, size)
    if seed:
        unit = np.fmod(unit + np.random.default_rng([seed, 1]).random(len(space)), 1.0)
    rate = unit[:, list(space).index("lr") if "lr" in space else 0]
    dealt = _dealt(rate, trials, np.random.default_rng([seed, 2, block]))
    chosen: Sequence[int] = dealt[:, place].tolist()
    return [{name: value(space[name], float(u)) for name, u in zip(space, unit[i], strict=True)} for i in chosen]


def _dealt(rate: np.ndarray, trials: int, random: np.random.Generator) -> np.ndarray:
    """Trials × studies: which point each study tries, one from every ``trials``-th part of the rates, at random.

    AlgoPerf deals without looking.  Some studies then have no good rate, and how long a study takes is a lottery:
    where one rate is best, times of studies spread a quarter to a third less when dealt so.
    """
    parts = np.argsort(rate).reshape(trials, -1)
    return random.permutation(random.permuted(parts, axis=1), axis=0)
