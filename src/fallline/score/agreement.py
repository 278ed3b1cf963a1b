"""How far two orders of the same contestants agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def kendall(first: Sequence[float], second: Sequence[float]) -> tuple[float, int, int]:
    """Kendall's τ_b of two scores of the same entries, and how many pairs agree and disagree in order.

    >>> kendall([1, 2, 3], [1, 3, 2])
    (0.3333333333333333, 2, 1)
    """
    signs = [(_order(first[i], first[j]), _order(second[i], second[j])) for i in range(len(first)) for j in range(i)]
    agree, disagree = sum(a * b > 0 for a, b in signs), sum(a * b < 0 for a, b in signs)
    ordered = math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    return (agree - disagree) / ordered if ordered else 0.0, int(agree), int(disagree)


def _order(a: float, b: float) -> int:
    """Two misses, ∞ and ∞, are a tie."""
    return 0 if a == b else int(np.sign(a - b))
