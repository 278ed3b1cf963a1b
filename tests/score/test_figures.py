"""The two figures: every contestant has a line of its own, on axes that say what the score is made of."""

from __future__ import annotations

import math

import pytest

from fallline.document.figures import Chart
from fallline.score.figures import figures, performance_profiles, score_by_tau_max
from fallline.score.leaderboard import TAU_MAX_AXIS, Leaderboard, leaderboard
from fallline.score.times import StudyTimes


def board(workloads: int = 8) -> Leaderboard:
    names = tuple(f"w{number}" for number in range(workloads))
    cells = {(contestant, name): {0: time} for contestant, time in (("a", 1.0), ("b", 2.5)) for name in names}
    cells |= {("c", name): {0: math.inf} for name in names}
    return leaderboard(StudyTimes(("a", "b", "c"), names, {}, cells))


def points(chart: Chart) -> dict[str, list[tuple[float, float]]]:
    return {line.name.split()[0]: list(zip(line.x, line.y, strict=True)) for line in chart.series}


def test_profiles_rise_from_one_to_tau_max_in_eighths() -> None:
    shown = performance_profiles(board())
    assert (shown.x.low, shown.x.high) == (1.0, 4.0) and shown.steps
    assert shown.y.low < 0.0 and shown.y.high > 1.0, "lines at both ends are seen"
    assert shown.y.ticks == {i / 8: f"{i}/8" for i in range(9)}
    lines = points(shown)
    assert lines["a"] == [(1.0, 1.0)] * 9 + [(4.0, 1.0)]
    assert lines["b"] == [(1.0, 0.0), *[(2.5, 1.0)] * 8, (4.0, 1.0)]
    assert lines["c"] == [(1.0, 0.0), (4.0, 0.0)], "a miss never rises"


@pytest.mark.parametrize(
    ("workloads", "ticks"), [(2, ["0/2", "1/2", "2/2"]), (3, ["0/3", "1/3", "2/3", "3/3"]), (25, None)]
)
def test_ticks_are_shares_that_the_number_of_workloads_can_have(workloads: int, ticks: list[str] | None) -> None:
    shown = performance_profiles(board(workloads)).y.ticks
    assert shown is not None and (min(shown), max(shown)) == (0.0, 1.0)
    assert ticks is None or list(shown.values()) == ticks
    assert len(shown) <= 14, "many workloads have a tick for every few of them"


def test_a_single_workload_has_no_profile() -> None:
    assert [figure.name for figure in figures(board(1))] == ["score_vs_tau_max"]
    assert [figure.name for figure in figures(board(2))] == ["profiles", "score_vs_tau_max"]


def test_scores_are_drawn_at_every_tau_max() -> None:
    shown = score_by_tau_max(board())
    assert (shown.x.low, shown.x.high) == (1.5, 4.0) and shown.y.high >= 1.0
    lines = {line.name: line for line in shown.series}
    assert list(lines) == ["a", "b", "c"]
    assert all(list(line.x) == list(TAU_MAX_AXIS) for line in lines.values())
    assert lines["b"].y[-1] == pytest.approx(0.5)
