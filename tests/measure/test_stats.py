"""Intervals cover what they promise to cover, and text shows no more than they support."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.measure.stats import (
    Estimate,
    bootstrap_median,
    paired_ratio,
    spread,
    trimmed_mean,
    typical_side_by_side,
)


def test_interval_covers_the_median_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        found = bootstrap_median(draw.lognormal(size=31).tolist(), resamples=400)
        covered += found.low <= 1.0 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


def test_same_samples_give_the_same_interval() -> None:
    samples = np.random.default_rng(2).normal(10, 1, 40).tolist()
    assert bootstrap_median(samples) == bootstrap_median(samples)


def test_few_samples_give_their_whole_range() -> None:
    assert bootstrap_median([3.0, 1.0, 2.0]) == Estimate(2.0, 1.0, 3.0, 3)


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_median([])


def test_pairing_removes_what_slows_both() -> None:
    load = np.random.default_rng(3).lognormal(0, 1, 50)
    ratio = paired_ratio((3 * load).tolist(), load.tolist())
    assert ratio.value == pytest.approx(3.0) and ratio.high - ratio.low < 1e-9
    with pytest.raises(ValueError, match="as many"):
        paired_ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(5.314, 5.24, 5.40, 9), "5.31× (5.24 to 5.40)"),
        (Estimate(88.2, 81.0, 95.0, 9), "88× (81 to 95)"),
        (Estimate(0.025131, 0.02512, 0.02514, 9), "0.02513× (0.02512 to 0.02514)"),
        (Estimate(0.04, 0.01, 10.0, 9), "0.04× (0.01 to 10.00)"),
        (Estimate(2.0654321, 2.0654321, 2.0654321, 1), "2.065×"),
    ],
)
def test_digits_follow_the_interval(estimate: Estimate, text: str) -> None:
    assert estimate.text("×") == text


def test_spread_is_relative_and_robust() -> None:
    assert spread([10.0, 10.0, 10.0, 1000.0, 10.0]) == 0.0
    assert spread([9.0, 10.0, 11.0]) == pytest.approx(0.1)


def test_equal_things_measured_side_by_side_are_equal_though_the_machine_slows_down() -> None:
    """Plain medians of nine rounds may come from the fast or from the slow half, by one noisy round."""
    generator = np.random.default_rng(3)
    plain, paired = [], []
    for _ in range(200):
        speed = np.repeat([1.0, 1.3], (5, 4))
        samples = {name: (speed * np.exp(generator.normal(0.0, 0.03, 9))).tolist() for name in "abc"}
        found = typical_side_by_side(samples)
        paired.append(abs(math.log(found["a"] / found["b"])))
        plain.append(abs(math.log(np.median(samples["a"]) / np.median(samples["b"]))))
    assert np.mean(paired) < 0.75 * np.mean(plain)
    assert typical_side_by_side({"alone": [3.0, 1.0, 2.0]}) == pytest.approx({"alone": 2.0})


def test_an_outlier_of_one_moves_none_of_those_beside_it() -> None:
    generator = np.random.default_rng(4)
    samples = {name: np.exp(generator.normal(0.0, 0.03, 9)).tolist() for name in "abcde"}
    spoilt = {**samples, "e": [100.0, *samples["e"][1:]]}
    before, after = typical_side_by_side(samples), typical_side_by_side(spoilt)
    assert all(after[name] == pytest.approx(before[name], rel=0.01) for name in "abcd")
    assert len(set(before.values())) == 5, "none of them is the middle of most rounds, and so equal to another"


@pytest.mark.parametrize("noise", ["normal", "disturbed"])
def test_the_error_of_a_trimmed_mean_is_how_far_it_is_off(noise: str) -> None:
    generator = np.random.default_rng(5)
    found = []
    for _ in range(400):
        samples = generator.normal(0.0, 1.0, 40)
        if noise == "disturbed":
            samples[generator.random(40) < 0.1] *= 20.0
        found.append(trimmed_mean(samples))
    values, errors = np.array(found).T
    assert values.std() == pytest.approx(np.sqrt((errors**2).mean()), rel=0.15)
    assert values.std() < (0.2 if noise == "normal" else 0.25), "outliers of twenty deviations hardly move it"
    assert 0.92 <= (np.abs(values) < 2 * errors).mean() <= 0.98


def test_one_sample_has_no_error_to_show() -> None:
    assert trimmed_mean([3.0]) == (3.0, math.inf)
