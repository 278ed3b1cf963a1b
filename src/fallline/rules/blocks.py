"""How a parameter is cut into blocks whose axes each have a square matrix, for matrix functions.

The matrices of one parameter lie one behind the other in one flat tensor: block after block, and in each block axis
after axis.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

MERGES = ("none", "last", "first", "rows")


@dataclasses.dataclass(frozen=True)
class Square:
    """One matrix: of which axis of its block, of how many rows, and where it begins in the flat tensor."""

    axis: int
    dim: int
    first: int


@dataclasses.dataclass(frozen=True)
class Block:
    """A part of the merged tensor."""

    slices: tuple[slice, ...]
    shape: tuple[int, ...]
    squares: tuple[Square, ...]


@dataclasses.dataclass(frozen=True)
class Squares:
    """The shape of a state of square matrices.  Fields may name static arguments until they are settled."""

    max_dim: int | str
    merge: str = "none"
    cut: bool = True
    only: int | None = None
    """The one axis whose matrices are kept; None for all."""
    longest: int | None = None
    """A tensor with a longer axis, after merging, has no matrices; None for no limit."""

    def settled(self, statics: Mapping[str, Any]) -> Squares:
        found = {name: statics.get(value, value) for name, value in vars(self).items() if isinstance(value, str)}
        return dataclasses.replace(self, **found)

    def merged(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape in which the tensor is cut: axes of length 1 are dropped and neighbours multiplied as long as the
        product is at most ``max_dim``.  "rows" leaves the first axis and the product of the others."""
        if self.merge == "none":
            return tuple(shape) or (1,)
        if self.merge == "rows":
            return (shape[0], prod(shape[1:]))
        limit = int(self.max_dim)
        backwards = self.merge == "last"
        axes = [size for size in (reversed(shape) if backwards else shape) if size != 1] or [1]
        found = axes[:1]
        for size in axes[1:]:
            if found[-1] * size <= limit:
                found[-1] *= size
            else:
                found.append(size)
        return tuple(reversed(found)) if backwards else tuple(found)

    def blocks(self, shape: Sequence[int]) -> list[Block]:
        merged, limit = self.merged(shape), int(self.max_dim)
        if prod(merged) == 0 or (self.longest is not None and max(merged) > self.longest):
            return []
        ranges = [
            [slice(at, min(at + limit, size)) for at in range(0, size, limit)] if self.cut else [slice(0, size)]
            for size in merged
        ]
        found, first = [], 0
        for slices in itertools.product(*ranges):
            dims = tuple(one.stop - one.start for one in slices)
            own = []
            for axis, dim in enumerate(dims):
                if dim <= limit and self.only in (None, axis):
                    own.append(Square(axis, dim, first))
                    first += dim * dim
            found.append(Block(slices, dims, tuple(own)))
        return found

    def numel(self, shape: Sequence[int]) -> int:
        """The elements of all matrices of a parameter of this shape."""
        return sum(square.dim**2 for block in self.blocks(shape) for square in block.squares)
