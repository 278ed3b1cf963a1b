"""When a race is looked at, and how strict each look is."""

from __future__ import annotations

import bisect
import math

LEVEL = 0.006
"""The level of the first look; that of look l is the l-th part of it, so that a race may be continued for ever.

Chosen by simulation, together with the weight of the common noise: `benchmarks/race_calibration.py` repeats it.
"""
FIRST_LOOK = 3
"""Studies; a look at two errs in 6 % of races of two or three contestants."""
_EARLY = (3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40)
_GROWTH = 1.22
"""The growth of the number of studies between later looks: a look costs a part of the level, and one more study then
says little."""


def next_studies(done: int) -> int:
    """The studies at which the next look is taken, after one at so many.

    >>> [next_studies(n) for n in (0, 2, 3, 6, 7, 40, 49)]
    [3, 3, 4, 8, 8, 49, 60]
    """
    if done < _EARLY[-1]:
        return _EARLY[bisect.bisect_right(_EARLY, done)]
    size = _EARLY[-1]
    while size <= done:
        size = math.ceil(_GROWTH * size)
    return size


def looks_up_to(studies: int) -> list[int]:
    """Every size at which a race of at most so many studies is looked at.

    >>> looks_up_to(9)
    [3, 4, 5, 6, 8]
    """
    sizes, size = [], next_studies(0)
    while size <= studies:
        sizes.append(size)
        size = next_studies(size)
    return sizes


def level_of(look: int, level: float = LEVEL) -> float:
    return level / look
