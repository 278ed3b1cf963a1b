"""The lecture's experiment, shortened: its network, its methods, its six panels."""

from __future__ import annotations

import numpy as np
import pytest

from fallline.gallery import fashion_training
from fallline.gallery.fashion_training import METHODS, Curves
from fallline.workloads import images
from fallline.workloads.fashion_mlp import STAND_IN


def curves(seed: int) -> Curves:
    random = np.random.default_rng(seed)
    falling = np.exp(-np.arange(60) / 20) + 0.1 * random.random(60)
    return Curves(falling, 1 - falling / 2, falling[::20], 1 - falling[::20] / 2, np.array([0.0, 1.0, 2.0]))


def test_the_four_methods_are_the_lectures() -> None:
    assert [method.title for method in METHODS] == ["SGD", "momentum", "Nesterov", "Adam"]
    assert METHODS[1].settings == {"momentum": 0.9} and METHODS[2].settings == {"momentum": 0.9, "nesterov": True}
    assert fashion_training.EPOCHS == 10 and fashion_training.SEEDS == 3 and fashion_training.SHARED_RATE == 4e-4


def test_six_panels_have_every_method_with_a_band() -> None:
    runs = {method.title: [curves(seed) for seed in range(3)] for method in METHODS}
    panels = fashion_training.six_panels("six", "title", runs)
    assert [chart.title for chart in panels.charts] == [
        "training loss / iteration", "test loss / epoch", "test loss / seconds",
        "training accuracy / iteration", "test accuracy / epoch", "test accuracy / seconds",
    ]  # fmt: skip
    for chart in panels.charts:
        assert [series.name for series in chart.series] == ["SGD", "momentum", "Nesterov", "Adam"]
        for series in chart.series:
            assert series.low is not None and series.high is not None
            assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))


@pytest.mark.usefixtures("one_thread")
def test_a_training_records_every_iteration_and_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_REAL_DATA", "0")
    small = STAND_IN._replace(training=4096)
    monkeypatch.setattr(fashion_training, "STAND_IN", small)
    monkeypatch.setattr("fallline.workloads.fashion_mlp.STAND_IN", small)
    (found,) = fashion_training.trained([(METHODS[3], 3e-3, 0)], epochs=2)
    per_epoch = len(images.images(small).train) // 1024
    assert len(found.loss) == len(found.accuracy) == 2 * per_epoch
    assert len(found.test_loss) == len(found.test_accuracy) == len(found.seconds) == 3
    assert found.seconds[0] == 0.0 and found.seconds[2] > found.seconds[1] > 0.0
    assert found.test_loss[0] == pytest.approx(np.log(10), rel=0.3), "before training"
    assert found.test_loss[2] < found.test_loss[0]


def test_the_caption_orders_methods_by_what_they_reached() -> None:
    tuned = {"SGD": {"test_accuracy": 0.8}, "Adam": {"test_accuracy": 0.9}}
    shared = {"SGD": {"test_accuracy": 0.6}, "Adam": {"test_accuracy": 0.88}}
    numbers = {"parameters": 79_510, "tuned": tuned, "shared": shared}
    text = fashion_training.caption(numbers, real=False)
    assert "79,510 parameters" in text and "Adam 90.0 %, SGD 80.0 %" in text
    assert "that costs Adam 2.0 points and SGD 20.0" in text
    assert "Fashion-MNIST is not installed" in text and "not installed" not in fashion_training.caption(
        numbers, real=True
    )
