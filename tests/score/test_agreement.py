"""Kendall's τ, against scipy's, with ties and misses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.score.agreement import kendall


def test_it_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.integers(0, 6, 9).tolist(), rng.integers(0, 6, 9).tolist()
        assert kendall(first, second)[0] == pytest.approx(float(stats.kendalltau(first, second).statistic))


def test_two_misses_are_a_tie_and_a_miss_comes_last() -> None:
    assert kendall([1, 2, math.inf], [1, 2, math.inf]) == (1.0, 3, 0)
    assert kendall([1, math.inf, math.inf], [1, 2, 3])[1:] == (2, 0)
    assert kendall([1, 1], [1, 2])[0] == 0.0
