"""Which process steps which matrix: matrix functions take whole matrices, so each has an owner who gathers it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def cost(shape: Sequence[int]) -> float:
    """The cost of a step of a matrix of this shape, up to a factor: products of its Gram matrix."""
    rows, cols = shape[0], prod(shape[1:])
    return float(min(rows, cols) ** 2 * max(rows, cols))


class Loads:
    """The work of each process so far; the next largest matrix goes to the one that has least."""

    def __init__(self, size: int):
        self._loads = [0.0] * size

    def assign(self, shapes: Sequence[Sequence[int]]) -> list[int]:
        """The owner of each of these; all processes come to the same result."""
        owners = [0] * len(shapes)
        for i in sorted(range(len(shapes)), key=lambda i: (-cost(shapes[i]), i)):
            owners[i] = rank = self._loads.index(min(self._loads))
            self._loads[rank] += cost(shapes[i])
        return owners
