"""Which process steps which matrix: matrix functions take whole matrices, so each has an owner who gathers it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def cost(shape: Sequence[int]) -> float:
    """The cost of a step of a matrix of this shape, up to a factor: products of its Gram matrix."""
    rows, cols = shape[0], prod(shape[1:])
    return float(min(rows, cols) ** 2 * max(rows, cols))


ROUNDS = 4
"""The parts in which owners step matrices that all processes have, so that the results of one are sent during the next.
The same in all processes, because each part is an exchange."""


def rounds(shapes: Sequence[Sequence[int]], owners: Sequence[int]) -> list[int]:
    """The round in which each of these matrices is stepped.

    The matrices of an owner come in parts of about equal cost, equal shapes together, because a matrix function takes
    them at once; the largest come first, so that little is left to send at the end.
    """
    found = [0] * len(shapes)
    for owner in set(owners):
        own = [i for i in range(len(shapes)) if owners[i] == owner]
        own.sort(key=lambda i: (-cost(shapes[i]), tuple(shapes[i]), i))
        whole, done = sum(cost(shapes[i]) for i in own), 0.0
        for i in own:
            found[i] = min(ROUNDS - 1, int(ROUNDS * done / whole)) if whole else 0
            done += cost(shapes[i])
    return found


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
