"""The space of a value: the indices over which it varies.

It alone decides where a value is computed:

    ALL     one number for the whole optimizer, known after a reduction over all parameters
    TENSOR  one number per parameter, known after a reduction over it
    BATCH   one number per matrix of a stack of matrices (both matrix axes reduced)
    ROW     one number per matrix row (the last axis reduced)
    COL     one number per matrix column (the second-last axis reduced)
    DIM0    one number per row of ``view(size0, -1)``
    FULL    one number per element
    SQUARES the square matrices of a parameter's blocks, which only matrix functions read and change
"""

from __future__ import annotations

import enum
from typing import Any


class Space(enum.IntEnum):
    HOST = 0
    ALL = 1
    TENSOR = 2
    BATCH = 3
    ROW = 4
    COL = 5
    DIM0 = 6
    FULL = 7
    SQUARES = 8

    @property
    def is_scalar(self) -> bool:
        """Whether the value is one number for a given parameter."""
        return self <= Space.TENSOR


SMALL = (Space.ALL, Space.TENSOR, Space.BATCH, Space.ROW, Space.COL, Space.DIM0)


def join(a: Space, b: Space) -> Space:
    """The space of an elementwise operation on values of these two spaces."""
    if a == b or (b.is_scalar and a >= b):
        return a
    if a.is_scalar:
        return b
    if Space.FULL in (a, b):
        return Space.FULL
    if {a, b} == {Space.ROW, Space.COL}:
        return Space.FULL
    return a if b == Space.BATCH else b


# The space of a reduction, by the space of its argument and the axis.  A missing entry is an error in the rule.
REDUCED: dict[tuple[Space, Any], Space] = {
    (Space.FULL, "all"): Space.ALL,
    (Space.FULL, "tensor"): Space.TENSOR,
    (Space.FULL, "rows"): Space.DIM0,
    (Space.FULL, -1): Space.ROW,
    (Space.FULL, -2): Space.COL,
    (Space.ROW, -2): Space.BATCH,
    (Space.COL, -1): Space.BATCH,
    (Space.ROW, "tensor"): Space.TENSOR,
    (Space.COL, "tensor"): Space.TENSOR,
    (Space.BATCH, "tensor"): Space.TENSOR,
    (Space.DIM0, "tensor"): Space.TENSOR,
}

AXES = ("tensor", "all", "rows", -1, -2)
