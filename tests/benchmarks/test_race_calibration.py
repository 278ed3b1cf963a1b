"""A quick form of the calibration of races: a few thousand of them, bars loosened by the error of so few."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import simulated_races as simulated
from benchmarks.race_calibration import (
    Job,
    _false,
    _false_answer,
    above_the_bound,
    asked_afterwards,
    bars,
    beyond_the_margin,
    misses,
    twins,
)
from benchmarks.simulated_races import draw, held_against_the_rule, on_grid, race
from fallline.measure.stats import ALPHA
from fallline.score.decision import LEADER, Times
from fallline.score.decision.replay import of_times, replay

RACES = 2000
JOB = Job(RACES, seed=1)


def bar(races: int = RACES) -> float:
    """Three standard errors above 2 %."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / races)


@pytest.mark.parametrize("noise", [simulated.normal, simulated.heavy_tailed, simulated.skewed, simulated.unequal])
@pytest.mark.parametrize("contestants", [2, 5])
def test_twins_are_told_apart_in_at_most_2_percent_of_races(noise: simulated.Noise, contestants: int) -> None:
    assert twins(JOB, contestants, 18, noise) <= bar()


def test_equal_times_on_a_grid_are_not_told_apart() -> None:
    assert twins(JOB, 2, 18, simulated.normal, grid=True) <= bar()


def test_a_choice_just_beyond_the_margin_is_rare() -> None:
    assert beyond_the_margin(JOB, 3, simulated.normal, studies=30) <= bar()


def test_the_loss_is_rarely_above_the_bound_whenever_the_race_ends() -> None:
    found = above_the_bound(JOB, 3, simulated.normal, studies=18)
    assert found["at the worst time limit"] <= bar(RACES // 2) and found["at any look"] <= bar(RACES // 2)


def test_twins_with_misses_are_rarely_told_apart() -> None:
    assert misses(Job(2000, seed=1), 2, 0.2, studies=10) <= bar(200)


@pytest.mark.parametrize("step", [0.0, 0.05])
def test_whatever_is_asked_afterwards_is_rarely_wrong(step: float) -> None:
    assert asked_afterwards(Job(2000, seed=2), 3, simulated.unequal, step, studies=8) <= bar(200)


def test_a_false_answer_would_be_noticed() -> None:
    """Contestants that are far apart, held against gaps that say they are equal."""
    y = draw(np.random.default_rng(4), 1, [0.0, 0.5], 6)[0]
    evidence_at = of_times(Times({"0": y[0], "1": y[1]}))
    looks = replay(evidence_at, ["0", "1"], (3, 4, 5, 6), until=LEADER)
    right, wrong = {"0": 0.0, "1": 0.5}, {"0": 0.0, "1": 0.0}
    assert _false(looks, wrong) and not _false(looks, right)
    assert _false_answer(looks[-1], evidence_at, "0", wrong) and not _false_answer(looks[-1], evidence_at, "0", right)


def test_a_rule_that_is_too_lax_would_be_noticed() -> None:
    y = draw(np.random.default_rng(0), RACES, [0.0] * 5, 18)
    lax = race(y, until=LEADER, level=0.1)
    assert (~lax.racing[-1]).any(axis=1).mean() > bar()


def test_as_many_trials_as_promised_are_enough() -> None:
    generator = np.random.default_rng(3)
    for gap, most in ((0.1, 25), (0.2, 13)):
        pair = race(draw(generator, 1000, [0.0, math.log1p(gap)], 60), until=LEADER)
        assert pair.trials.mean() <= most and (pair.at_end(pair.choice) == 0).mean() > 0.98
    ladder = race(draw(generator, 1000, (math.log1p(0.1) * np.arange(5)).tolist(), 40))
    assert ladder.trials.mean() <= 20


@pytest.mark.parametrize("contestants", [2, 4, 7])
@pytest.mark.parametrize("until", [None, LEADER])
def test_races_as_arrays_are_the_rule_one_by_one(contestants: int, until: str | None) -> None:
    generator = np.random.default_rng(contestants)
    y = draw(generator, 15, np.linspace(0.0, 0.15, contestants).tolist(), 15, simulated.unequal)
    assert held_against_the_rule(y, race(y, until=until), until=until)
    y = on_grid(y)
    assert held_against_the_rule(y, race(y, until=until, floor=0.017), floor=0.017, until=until)
    assert not held_against_the_rule(y, race(y, until=until, floor=0.1), floor=0.017, until=until)


def test_a_number_above_its_bar_is_named() -> None:
    strength = {
        "two, 10 % apart": {"trials to a leader": 24.0},
        "two, 20 % apart": {"trials to a leader": 14.0},
        "five, each 10 % behind the one before": {"trials to a choice": 19.0},
    }
    found = bars({"equal": {2: 0.021, 3: 0.02, 4: None}}, strength)
    assert found == ["equal, 2 contestants: 2.10 %", "two, 20 % apart: 14.0 trials to a leader, at most 13"]
