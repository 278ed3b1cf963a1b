"""The numbers of the figures that take seconds, and that captions say what the data say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.document.figures import Chart, Landscape, Panels, Strip
from fallline.gallery import adam_counterexample, fashion_samples, rosenbrock, speedrun, weight_decay
from fallline.gallery.catalogue import NAMES, make
from fallline.gallery.exhibit import NoExhibit, Wishes
from fallline.workloads.fashion_mlp import STAND_IN
from tests.gallery import exhibit

pytestmark = pytest.mark.usefixtures("one_thread")


def test_unknown_figures_are_refused_with_the_nearest_names() -> None:
    with pytest.raises(NoExhibit, match="did you mean rosenbrock"):
        make("rosenbrok", Wishes())
    with pytest.raises(NoExhibit, match=f"there are {NAMES[0]}"):
        make("zzz", Wishes())


# ---------------------------------------------------------------------------- Rosenbrock


def test_four_paths_start_at_one_point_and_the_optimum_is_marked() -> None:
    valley, distance = exhibit("rosenbrock").figures
    assert isinstance(valley, Landscape) and isinstance(distance, Chart)
    assert {path.name.split("\n")[0] for path in valley.paths} == {"Fromage", "AdamW", "NAGGS", "Lion"}
    assert len({(path.x[0], path.y[0]) for path in valley.paths}) == 1
    assert valley.optimum == (1.0, 1.0) and all(len(path.x) == 3001 for path in valley.paths)
    numbers = exhibit("rosenbrock").numbers
    assert numbers["lr"] == 0.003
    for name, end in numbers["ends"].items():
        assert end["f"] == pytest.approx((1 - end["x"]) ** 2 + 100 * (end["y"] - end["x"] ** 2) ** 2), name
        assert end["distance"] == pytest.approx(math.hypot(end["x"] - 1, end["y"] - 1)), name
        assert f"ends {end['distance']:.2g} from the optimum" in exhibit("rosenbrock").caption


def test_heights_are_those_of_the_function() -> None:
    valley = exhibit("rosenbrock").figures[0]
    assert isinstance(valley, Landscape)
    row, column = 20, 200
    x, y = valley.columns[column], valley.rows[row]
    assert valley.heights[row][column] == pytest.approx((1 - x) ** 2 + 100 * (y - x * x) ** 2)


def test_a_path_that_diverges_ends_where_it_was_finite() -> None:
    path = rosenbrock.trajectory("sgd", 0.1, 50, 0)
    assert len(path) < 50 and np.isfinite(path).all()
    end = rosenbrock.how_it_ended(path)
    assert "SGD diverges at step" in rosenbrock.caption({"sgd": end}, ["sgd"], 0.1, 50)


def test_an_optimizer_that_cannot_step_two_numbers_is_refused_in_one_line() -> None:
    with pytest.raises(NoExhibit, match=r"muon cannot be drawn at lr 0\.001: muon steps hidden matrices"):
        rosenbrock.trajectory("muon", 0.001, 5, 0)


# ---------------------------------------------------------------------------- methods on given gradients


def test_adam_ends_at_the_worst_point_and_amsgrad_at_the_best() -> None:
    numbers = exhibit("adam_counterexample").numbers
    assert numbers["ends"]["Adam"] == pytest.approx(1.0, abs=0.02)
    assert numbers["ends"]["AMSGrad"] == pytest.approx(-1.0, abs=0.02)
    assert numbers["cost_per_step"]["Adam"] > 3 * numbers["cost_per_step"]["AMSGrad"]
    assert "Adam (β₂ = 0.99) is at +1.00" in exhibit("adam_counterexample").caption


def test_the_cost_of_standing_still_is_the_mean_slope_times_the_distance() -> None:
    path = np.ones(2 * adam_counterexample.PERIOD + 1)
    slope = (1010 - 100 * 10) / 101
    assert adam_counterexample.cost_by_period(path) == pytest.approx([2 * slope, 2 * slope])


def test_adagrad_is_better_on_sparse_features_and_moves_rare_ones_further() -> None:
    numbers = exhibit("sparse_features").numbers
    assert numbers["ends"]["adagrad"] < 0.9 * numbers["ends"]["sgd"]
    assert numbers["rarest_step"]["adagrad"] > 4 and numbers["rarest_step"]["sgd"] == pytest.approx(1.0, rel=1e-3)


def test_without_bias_correction_the_first_steps_are_too_long() -> None:
    numbers = exhibit("bias_correction").numbers
    assert numbers["first"] == pytest.approx(math.sqrt(10.0), rel=1e-9)
    assert numbers["longest"] == pytest.approx((1 - 0.9**12) / math.sqrt(1 - 0.999**12), rel=1e-9)
    assert numbers["longest_at"] == 12 and numbers["settled_at"] > 3000
    (chart,) = exhibit("bias_correction").figures
    assert isinstance(chart, Chart)
    corrected = next(series for series in chart.series if series.name == "with correction")
    assert list(corrected.y) == pytest.approx([1.0] * len(corrected.y), rel=1e-9)


def test_decoupled_decay_does_not_depend_on_gradients_and_l2_does() -> None:
    numbers = exhibit("weight_decay").numbers
    assert numbers["adamw"] == pytest.approx([numbers["expected"]] * 2, rel=1e-3)
    assert numbers["expected"] == pytest.approx((1 - 0.01 * 0.1) ** 200)
    small, large = numbers["adam"]
    assert small < 0.3 and large > 0.95
    assert weight_decay.SIZES[10].item() == pytest.approx(0.1) and weight_decay.SIZES[30].item() == pytest.approx(10.0)


# ---------------------------------------------------------------------------- published and simple


def test_the_speedrun_has_thirteen_records_each_faster_than_the_last() -> None:
    assert len(speedrun.RECORDS) == 13
    dates, minutes = zip(*((date, taken) for date, taken, _ in speedrun.RECORDS), strict=True)
    assert list(dates) == sorted(dates) and list(minutes) == sorted(minutes, reverse=True)
    assert (minutes[0], minutes[-1]) == (45.0, 4.66) and (dates[0], dates[-1]) == ("2024-05-28", "2024-11-24")
    assert "9.7 times as fast" in exhibit("speedrun").caption and "8 × H100" in exhibit("speedrun").figures[0].title


def test_losses_are_the_formulas_and_the_network_has_its_parameters() -> None:
    numbers = exhibit("losses").numbers
    assert numbers["parameters"] == 79_510 and "79,510 parameters" in exhibit("losses").caption
    assert numbers["cross_entropy_at_0.01"] == pytest.approx(-math.log(0.01), rel=1e-5)
    (panels,) = exhibit("losses").figures
    assert isinstance(panels, Panels)
    entropy, square = panels.charts[1].series
    assert list(entropy.y) == pytest.approx([-math.log(p) for p in entropy.x], abs=1e-5)
    assert list(square.y) == pytest.approx([(1 - p) ** 2 for p in square.x], abs=1e-6)


def test_the_strip_has_ten_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_REAL_DATA", "0")
    monkeypatch.setattr(fashion_samples, "STAND_IN", STAND_IN._replace(training=1000))
    made = make("fashion_samples", Wishes())
    (strip,) = made.figures
    assert isinstance(strip, Strip)
    assert len(strip.columns) == 10 and all(len(row) == 10 for row in strip.rows)
    assert len(strip.rows[0][0]) == 28 and not made.numbers["real"]
    assert "generated" in made.data and "apt install dataset-fashion-mnist" in made.caption, (
        "what it is, and the remedy"
    )


def test_the_memory_of_gpt2_adds_up() -> None:
    numbers = exhibit("gpt2_memory").numbers
    assert list(numbers["sections_gb"].values()) == [3, 3, 6, 6, 6, 8, 6, 3] and numbers["total_gb"] == 41
    assert numbers["bytes_per_parameter"] == 16 and not numbers["fits"]
    assert exhibit("gpt2_memory").caption.startswith("3 + 3 + 6 + 6 + 6 + 8 + 6 + 3 = 41 GB")
    assert "does not fit on 32 GB" in exhibit("gpt2_memory").caption
