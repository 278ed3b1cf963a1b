"""Selectors by shape, for ``fallline.create(…, assign={select.vectors: "adamw"})``.

A selector is any function of a parameter's name and the parameter; these also say what they select, for messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from torch import Tensor


@dataclasses.dataclass(frozen=True)
class ByShape:
    """Parameters whose number of axes satisfies a condition."""

    says: str
    holds: Callable[[int], bool]

    def __call__(self, name: str | None, param: Tensor) -> bool:
        return self.holds(param.ndim)

    def __repr__(self) -> str:
        return self.says


vectors = ByShape("select.vectors", lambda axes: axes < 2)
"""Biases, gains and other parameters of fewer than two axes."""

matrices = ByShape("select.matrices", lambda axes: axes == 2)
"""Parameters of exactly two axes: weights of linear layers, embeddings."""


def ndim(*counts: int) -> ByShape:
    """Parameters with one of these numbers of axes, ``select.ndim(3, 4)`` for the kernels of convolutions."""
    if not counts or not all(isinstance(count, int) for count in counts):
        raise TypeError(f"select.ndim takes numbers of axes, select.ndim(4), got {counts!r}")
    return ByShape(f"select.ndim({', '.join(map(str, counts))})", lambda axes: axes in counts)
