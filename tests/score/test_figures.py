"""The two figures: every contestant has a line of its own, on axes that say what the score is made of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fallline.score.leaderboard import TAU_MAX_AXIS, Leaderboard, leaderboard
from fallline.score.times import StudyTimes

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from fallline.score import figures


def board(workloads: int = 8) -> Leaderboard:
    names = tuple(f"w{number}" for number in range(workloads))
    cells = {(contestant, name): {0: time} for contestant, time in (("a", 1.0), ("b", 2.5)) for name in names}
    cells |= {("c", name): {0: math.inf} for name in names}
    return leaderboard(StudyTimes(("a", "b", "c"), names, {}, cells))


def axes(plot: Any, shown: Leaderboard) -> Any:
    made = Figure().add_subplot()
    plot(made, shown)
    return made


def test_profiles_rise_from_one_to_tau_max_in_eighths() -> None:
    shown = axes(figures._profiles, board())
    assert shown.get_xlim() == (1.0, 4.0)
    assert shown.get_ylim()[0] <= 0.0 and shown.get_ylim()[1] >= 1.0, "lines at both ends are seen"
    assert [text.get_text() for text in shown.get_yticklabels()] == [f"{i}/8" for i in range(9)]
    assert shown.get_yticks() == pytest.approx([i / 8 for i in range(9)])
    lines = {line.get_label().split()[0]: line.get_xydata().tolist() for line in shown.get_lines()}
    assert lines["a"] == [[1.0, 1.0]] * 9 + [[4.0, 1.0]]
    assert lines["b"] == [[1.0, 0.0], *[[2.5, 1.0]] * 8, [4.0, 1.0]]
    assert lines["c"] == [[1.0, 0.0], [4.0, 0.0]], "a miss never rises"


@pytest.mark.parametrize(("workloads", "last"), [(1, "8/8"), (2, "8/8"), (3, "3/3")])
def test_ticks_are_shares_that_the_number_of_workloads_can_have(workloads: int, last: str) -> None:
    shown = axes(figures._profiles, board(workloads))
    assert shown.get_yticklabels()[-1].get_text() == last and shown.get_yticks()[-1] == 1.0


def test_scores_are_drawn_at_every_tau_max() -> None:
    shown = axes(figures._score_by_tau_max, board())
    assert shown.get_xlim() == (1.5, 4.0) and shown.get_ylim()[1] >= 1.0
    lines = {line.get_label(): line for line in shown.get_lines()}
    assert list(lines) == ["a", "b", "c"]
    assert all(list(line.get_xdata()) == list(TAU_MAX_AXIS) for line in lines.values())
    assert lines["b"].get_ydata()[-1] == pytest.approx(0.5)


def test_of_44_contestants_no_two_lines_look_alike() -> None:
    styles = [figures._style(index) for index in range(44)]
    assert len({(style["color"], style["linestyle"]) for style in styles}) == 44
    assert len({style["color"] for style in styles[:11]}) == 11
