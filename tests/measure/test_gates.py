"""Every gate stops the bad measurement it is for, and lets a good one through."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fallline.measure.gates import (
    above_bandwidth,
    changes_nothing,
    falls_with_size,
    invalid_inputs,
    warm_up_left_in,
    wrong_percentages,
)
from fallline.measure.stats import Estimate
from fallline.step.published.sources import ADAM_GRID, ADAN_GPT2


def noisy(middle: float, count: int = 18, seed: int = 0) -> list[float]:
    return (middle * np.exp(np.random.default_rng(seed).normal(0, 0.05, count))).tolist()


def test_more_bytes_per_second_than_the_probe() -> None:
    said = above_bandwidth(Estimate(1.4, 1.3, 1.5, 20))
    assert said is not None and "1.40×" in said
    assert above_bandwidth(Estimate(1.02, 0.99, 1.08, 20)) is None


def test_published_total_of_200_steps_is_above_any_bandwidth() -> None:
    """5.40 ms for 200 Adam steps over 81 M parameters: 84 TB/s, on a card that moves 1.6."""
    bytes_per_s = 28 * 81e6 * 200 / 5.40e-3
    fraction = bytes_per_s / 1.6e12
    assert above_bandwidth(Estimate(fraction, fraction, fraction, 1)) is not None


def test_time_that_falls_with_size() -> None:
    found = falls_with_size([(16384, noisy(3.07)), (65536, noisy(1.49, seed=1)), (262144, noisy(6.0, seed=2))])
    assert [at for at, _ in found] == [1]
    assert "× the time of 16,384 elements, with 65,536" in found[0][1]


def test_noise_alone_does_not_count_as_falling() -> None:
    for seed in range(20):
        assert falls_with_size([(1, noisy(1.0, 18, seed)), (2, noisy(0.95, 18, 100 + seed))]) == []
    # Two thirds of the time, which three samples cannot vouch for.
    assert falls_with_size([(1, [1.0, 0.4, 1.1]), (2, [0.6, 0.7, 0.65])]) == []


def test_few_samples_that_lie_apart_count_in_any_table() -> None:
    """Six samples each are what two arms far behind get, and no test of ranks among 300 comparisons can speak then."""
    slow, fast = noisy(1.0, 6), noisy(0.5, 6, seed=1)
    assert [at for at, _ in falls_with_size([(1, slow), (2, fast)], family=300)] == [1]
    assert falls_with_size([(1, slow), (2, [*fast[:5], 2.0])], family=300) == []
    assert falls_with_size([(1, slow), (2, noisy(0.85, 6, seed=1))], family=300) == []


def test_published_grid_has_columns_that_fall() -> None:
    compiled = [(float(size), [ADAM_GRID[32, size]["compiled"]] * 18) for size in (262144, 1048576)]
    assert falls_with_size(compiled)


def test_axis_that_is_ignored() -> None:
    said = changes_nothing("size", {16384: 1000.0, 65536: 1000.0})
    assert said is not None and "size does not change the work" in said
    said = changes_nothing("size", {1: 1e6, 2: 4e6}, {1: 0.0100, 2: 0.0101})
    assert said is not None and "4-fold and the time 1.01-fold (10 and 10.1 ms): is it used?" in said
    assert changes_nothing("size", {1: 1e6, 2: 4e6}, {1: 0.010, 2: 0.0112}) is not None  # minutes later
    assert changes_nothing("size", {1: 1e6, 2: 4e6}, {1: 0.010, 2: 0.015}) is None
    assert changes_nothing("size", {1: 1e6, 2: 4e6}, {1: 0.010, 2: 0.038}) is None
    assert changes_nothing("size", {1: 1e6}) is None


def test_warm_up_among_the_samples() -> None:
    cold = [9.0, 6.0, 4.0, 3.0, *noisy(1.0, 20)]
    said = warm_up_left_in(cold)
    assert said is not None and "warm-up" in said
    assert warm_up_left_in(noisy(1.0, 24)) is None
    assert warm_up_left_in([*noisy(1.0, 20), 9.0, 6.0]) is None
    assert warm_up_left_in([*cold, 10.0]) is not None  # a stumble later on hides nothing


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("exp_avg_sq 0", float("nan"), "NaN"),
        ("gradient 0", float("inf"), "infinity"),
        ("exp_avg_sq 0", -1.0, "mean of squares"),
    ],
)
def test_inputs_that_change_the_arithmetic(name: str, value: float, said: str) -> None:
    tensor = torch.ones(10)
    tensor[3] = value
    found = invalid_inputs({"parameter 0": torch.randn(4), name: tensor}, lambda n: n.partition(" ")[0].endswith("_sq"))
    assert found is not None and found.startswith(name) and said in found
    assert invalid_inputs({name: torch.ones(3), "empty": torch.empty(0)}, lambda _: True) is None


def test_percentages_that_do_not_follow_from_the_cells() -> None:
    """The published time table has two such rows."""
    rows = [(f"{r.heads}/{r.layers}/{r.width}", r.adan_ms, r.adam_ms, r.printed_percent) for r in ADAN_GPT2]
    found = wrong_percentages(rows)
    assert [text.partition(":")[0] for text in found] == ["6/6/768", "16/24/2048"]
    assert found[0] == "6/6/768: 4.07 / 5.40 is 75.4 %, printed 81.6"
    assert wrong_percentages([("a", "1.00", "3.00", "33.3")]) == []
