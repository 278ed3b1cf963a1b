"""Profiles, the score's integral and speed-ups on numbers done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.score import profiles
from fallline.score.leaderboard import leaderboard
from fallline.score.times import StudyTimes

INF = math.inf


def test_ratios_refer_to_the_fastest_and_keep_misses() -> None:
    assert profiles.ratios(np.array([[2.0, INF], [3.0, INF], [INF, INF]])).tolist() == [
        [1.0, INF],
        [1.5, INF],
        [INF, INF],
    ]


def test_profile_counts_workloads_within_tau() -> None:
    rho = profiles.profile(np.array([[1.0, 1.5, 4.0, INF]]), [1.0, 1.49, 1.5, 3.99, 4.0])
    assert rho.tolist() == [[0.25, 0.25, 0.5, 0.5, 0.75]]


@pytest.mark.parametrize(
    ("ratio", "wanted"),
    [([1.0] * 8, 1.0), ([INF] * 8, 0.0), ([4.0] * 8, 0.0), ([2.5] * 4, 0.5), ([1.0, 4.0, INF, 2.5], 1.5 / 4)],
)
def test_score_of_known_profiles(ratio: list[float], wanted: float) -> None:
    assert profiles.score(np.array(ratio)) == pytest.approx(wanted)


def test_score_is_the_integral_of_the_profile_at_every_tau_max() -> None:
    ratio = np.array([1.0, 1.2, 1.9, 2.4, 3.3, 3.9, 7.0, INF])
    for tau_max in (1.5, 2.0, 3.0, 4.0):
        taus = np.linspace(1.0, tau_max, 200_001)
        middle = (taus[1:] + taus[:-1]) / 2
        assert profiles.score(ratio, tau_max) == pytest.approx(profiles.profile(ratio, middle).mean(), abs=1e-5)


def test_trapezoids_of_a_hundred_points_are_close_and_not_equal() -> None:
    ratio = np.array([1.01, 1.2, 1.9, 2.4, 3.3, 3.9, 7.0, INF])
    assert 0 < abs(profiles.score_compat(ratio) - profiles.score(ratio)) < 0.0025
    # One step from 0 to 1 between the grid's first two points: one of its 99 intervals counts half.
    assert profiles.score_compat(np.array([1.01])) == pytest.approx(98.5 / 99)


def test_speedup_is_a_geometric_mean() -> None:
    assert profiles.speedup(np.array([10.0, 20.0]), np.array([20.0, 10.0])) == pytest.approx(1.0)
    assert profiles.speedup(np.array([10.0, 20.0]), np.array([90.0, 20.0])) == pytest.approx(3.0)


def test_a_miss_counts_in_the_speedup_as_what_was_allowed() -> None:
    cells = {("a", "w"): {0: 25.0}, ("a", "v"): {0: INF}, ("b", "w"): {0: 100.0}, ("b", "v"): {0: 25.0}}
    table = StudyTimes(("a", "b"), ("w", "v"), {}, cells)
    allowed = {(name, workload): 100.0 for name, workload in cells}
    rows = {row.contestant: row for row in leaderboard(table, reference="b", allowed=allowed).rows}
    assert rows["a"].speedup == pytest.approx(1.0) and rows["b"].speedup == pytest.approx(1.0)
    allowed["a", "v"] = INF
    rows = {row.contestant: row for row in leaderboard(table, reference="b", allowed=allowed).rows}
    assert rows["a"].speedup is None, "it never ran"
