"""The option ``cautious``, which wraps what the equations mark as their direction."""

from __future__ import annotations

from collections.abc import Callable

from fallline.rules.functions import maximum as at_least
from fallline.rules.functions import mean, where
from fallline.rules.node import Node


def cautious(grad: Node) -> Callable[[Node], Node]:
    """Drops the part of a direction that the gradient opposes, and divides the rest by the share that is kept
    (Liang et al. 2024, arXiv 2411.16085)."""

    def wrap(u: Node) -> Node:
        keep = where(u * grad > 0.0, 1.0, 0.0)
        return u * (keep / at_least(mean(keep), 1e-3))

    return wrap
