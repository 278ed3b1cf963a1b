"""Figures of stored races and of logs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fallline.document.figures import Chart, Intervals
from fallline.gallery import algoperf, language_and_vision
from fallline.gallery.catalogue import make
from fallline.gallery.exhibit import NoExhibit, Wishes
from fallline.gallery.stored import stored
from tests.docs.pages import writer_of
from tests.gallery import exhibit
from tests.score import reach


def test_profiles_without_logs_are_those_of_our_leaderboard_and_say_so() -> None:
    made = exhibit("algoperf")
    profiles, by_tau = made.figures
    assert isinstance(profiles, Chart) and profiles.steps and len(profiles.series) == 9
    assert list((profiles.y.ticks or {}).values()) == [f"{share}/8" for share in range(9)]
    assert isinstance(by_tau, Chart) and by_tau.x.low == 1.5 and by_tau.x.high == 4.0
    assert "not AlgoPerf's own results" in made.data
    for row in profiles.series:
        heights = [round(8 * height, 9) for height in row.y]
        assert all(height == int(height) for height in heights) and heights == sorted(heights)


def test_a_score_is_the_area_under_its_profile() -> None:
    profiles = exhibit("algoperf").figures[0]
    assert isinstance(profiles, Chart)
    for series, score in zip(profiles.series, exhibit("algoperf").numbers["scores"].values(), strict=True):
        area = sum(height * (after - at) for height, at, after in zip(series.y, series.x, series.x[1:], strict=False))
        assert area / 3 == pytest.approx(score, abs=1e-9), series.name


def test_the_stored_times_are_those_of_the_leaderboard() -> None:
    writer = writer_of("leaderboard")
    known, board = algoperf.from_json(stored("leaderboard")), writer.raced_times()
    assert known.contestants == board.contestants and known.workloads == board.workloads
    for key, cell in board.cells.items():
        assert list(known.cells[key].values()) == pytest.approx(list(cell.values()), rel=1e-4), key


def test_logs_take_the_place_of_the_leaderboard(tmp_path: Path) -> None:
    reach(tmp_path / "logs", "a", 0, "wmt", 1, 10.0)
    reach(tmp_path / "logs", "b", 0, "wmt", 1, 20.0)
    made = make("algoperf", Wishes(logs=tmp_path / "logs"))
    assert made.numbers["scores"] == {"a": 1.0, "b": pytest.approx(2 / 3)}
    with pytest.raises(NoExhibit, match="nowhere"):
        make("algoperf", Wishes(logs=tmp_path / "nowhere"))


# ---------------------------------------------------------------------------- language and vision


def task(field: str, adamw: list[int | None], sgd: list[int | None]) -> dict[str, object]:
    return {"field": field, "max_steps": 1000, "steps": {"adamw": adamw, "sgd": sgd}}


def test_the_edge_is_the_geometric_mean_of_ratios_and_a_miss_counts_with_the_budget() -> None:
    edge = language_and_vision.of_task(task("language", [100, 100, 500], [200, 800, None]))
    assert edge.ratio == pytest.approx((2 * 8 * 2) ** (1 / 3))
    low, high = edge.bounds
    assert low < edge.ratio < high and edge.freedom == 2


def test_intervals_of_equal_tasks_hold_what_there_is() -> None:
    same = language_and_vision.of_task(task("vision", [100, 200], [100, 200]))
    assert same.ratio == 1.0 and same.bounds == (1.0, 1.0)
    both = language_and_vision.apart(same, same)
    assert both.ratio == 1.0 and math.isfinite(both.freedom)


def test_the_stored_races_are_shown_with_their_interval() -> None:
    made = exhibit("language_and_vision")
    (figure,) = made.figures
    assert isinstance(figure, Intervals) and figure.reference == 1.0
    assert figure.rows[-1].strong and figure.rows[-1].name == "language / vision"
    value, low, high = made.numbers["language_over_vision"]
    assert low <= value <= high and f"{value:.2f} times as many ({low:.2f} to {high:.2f})" in made.caption
    larger = "larger on language" if low > 1 else "larger on vision" if high < 1 else "cannot tell"
    assert larger in made.caption, "the sentence follows from the interval"
    assert "benchmarks.language_and_vision" in made.data
