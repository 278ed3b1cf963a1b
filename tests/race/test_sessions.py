"""Ratios of step times: paired within rounds, by CPU time on a busy machine, over several processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.clock.calibrated import Calibrated
from fallline.race.clock.pace import decides_in, errors_of_ratios, own_pace_errors, pace_errors
from fallline.race.clock.sessions import (
    PLACEMENT_ERROR,
    Rounds,
    Session,
    combined,
    own_errors,
    ratio_errors,
)

PAIR = frozenset("ab")


def session(
    generator: np.random.Generator,
    ratios: dict[str, float],
    *,
    rounds: int = 30,
    noise: float = 0.02,
    placement: float = 0.0,
    speed: float = 1.0,
) -> Session:
    """Rounds on a machine whose speed drifts by half, with noise in each sample and an offset by process."""
    drift = speed * np.exp(generator.normal(0, 0.5, rounds).cumsum() / 5)
    offsets = {name: generator.normal(0, placement) for name in ratios}
    return Session(
        {
            name: Rounds((ratio * drift * np.exp(offsets[name] + generator.normal(0, noise, rounds))).tolist())
            for name, ratio in ratios.items()
        }
    )


def of_clocks(wall: float, cpu: float, obstacle: str | None = None) -> Session:
    return Session({name: Rounds([wall] * 4, [cpu] * 4) for name in "ab"}, obstacle=obstacle)


def test_cpu_time_counts_where_others_took_the_processor_and_nothing_forbids_it() -> None:
    assert of_clocks(3.0, 1.0).clock == "cpu" and of_clocks(3.0, 1.0).seconds["a"] == [1.0] * 4
    assert of_clocks(1.01, 1.0).clock == "wall", "a quiet machine"
    assert of_clocks(3.0, 1.0, "other threads do a part of the work").clock == "wall"
    assert of_clocks(3.0, 0.0).clock == "wall", "a clock that does not tick"
    assert Session({"a": Rounds([1.0] * 4)}).clock == "wall", "CPU time of before was not measured"
    assert of_clocks(4.0, 1.0).off_processor == pytest.approx(0.75)


def test_switches_are_told_on_the_clock_of_the_steps() -> None:
    found = Session({name: Rounds([3.0] * 4, [1.0] * 4) for name in "ab"}, {"a": Rounds([2.0] * 4, [0.5] * 4)})
    assert found.switch_over_step("a") == 0.5 and found.switch_over_step("b") == 0.0


def test_errors_of_ratios_are_of_rounds_and_do_not_feel_the_machines_drift() -> None:
    generator = np.random.default_rng(1)
    found = session(generator, {"a": 1.0, "b": 1.2})
    alone = float(np.std(np.log(found.steps["a"].wall)) / math.sqrt(30))
    assert found.errors[PAIR] < 0.5 * alone
    assert found.typical()["b"] / found.typical()["a"] == pytest.approx(1.2, rel=0.03)


@pytest.mark.parametrize("placement", [0.0, PLACEMENT_ERROR, 2 * PLACEMENT_ERROR])
@pytest.mark.parametrize(("sessions", "rounds"), [(1, 6), (1, 16), (3, 6), (3, 16), (12, 8)])
def test_a_true_ratio_is_within_two_errors_as_often_as_that_says(placement: float, sessions: int, rounds: int) -> None:
    generator = np.random.default_rng(2)
    ratios = {"a": 1.0, "b": 1.1, "c": 0.9}
    within, errors = [], []
    for _ in range(80):
        found = [session(generator, ratios, placement=placement, rounds=rounds) for _ in range(sessions)]
        times, error = combined(found), ratio_errors(found)[PAIR]
        within.append(abs(math.log(times["b"] / times["a"] / 1.1)) <= 2 * error)
        errors.append(error)
    # Processes that differ by twice what is expected show it only once there are several of them.
    assert np.mean(within) >= (0.90 if placement <= PLACEMENT_ERROR else 0.85 if sessions > 3 else 0.70)
    expected = math.sqrt((2 * 0.02**2 * 1.3 / rounds + 2 * max(placement, PLACEMENT_ERROR) ** 2) / sessions)
    assert np.mean(errors) < 1.5 * expected, "and not because errors are said to be large"


def test_more_processes_make_a_ratio_better_known_and_only_the_first_sets_the_level() -> None:
    generator = np.random.default_rng(3)
    speeds = [1.0, 5.0, 0.2, 3.0]
    found = [session(generator, {"a": 1.0, "b": 2.0}, speed=speed) for speed in speeds]
    errors = [ratio_errors(found[: count + 1])[PAIR] for count in range(4)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.6 * errors[0]
    first, all_of_them = found[0].typical(), combined(found)
    assert math.prod(all_of_them.values()) == pytest.approx(math.prod(first.values()))


def test_who_was_never_measured_beside_another_is_compared_through_a_third() -> None:
    generator = np.random.default_rng(4)
    early, late = session(generator, {"a": 1.0, "b": 2.0}), session(generator, {"b": 2.0, "c": 6.0}, speed=9.0)
    errors = ratio_errors([early, late])
    expected = math.hypot(errors[frozenset("ab")], errors[frozenset("bc")])
    assert errors[frozenset("ac")] == pytest.approx(expected)
    assert combined([early, late])["c"] / combined([early, late])["a"] == pytest.approx(6.0, rel=0.05)
    alone = session(generator, {"d": 1.0})
    assert set(combined([early, alone])) == {"a", "b"}, "nothing links it to the others"
    assert frozenset("ad") not in ratio_errors([early, alone])
    assert combined([]) == {} and ratio_errors([]) == {}


def test_errors_of_two_add_up_to_the_error_of_their_ratio() -> None:
    true = {"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.015}
    ratios = {(i, j): math.hypot(true[i], true[j]) for i in true for j in true if i < j}
    assert own_errors(true, ratios) == pytest.approx(true)
    assert own_errors(["a"], {}) == {"a": 0.0}
    # Estimates that no errors of three could give: still none of them is without one.
    contrary = {("a", "b"): 0.01, ("b", "c"): 0.01, ("a", "c"): 0.05}
    assert own_errors("abc", contrary)["b"] == pytest.approx(0.01 * math.sqrt(0.1))


def cost(share: float) -> Calibrated:
    return Calibrated(1.0, 1.0 - share, 1.0 + share, 0.0, 1, 1, None)


def test_a_race_decides_in_seconds_only_where_ratios_of_steps_are_known_well() -> None:
    generator = np.random.default_rng(5)
    costs = {name: cost(0.15) for name in "ab"}
    badly = errors_of_ratios("ab", [], costs)
    assert badly["a", "b"] == pytest.approx(math.sqrt(2) * 0.077, rel=0.02), "from each interval alone"
    well = errors_of_ratios("ab", [session(generator, {"a": 1.0, "b": 1.0})] * 2, costs)
    assert decides_in(pace_errors(badly, "a"), "ab") == "steps"
    assert decides_in(pace_errors(well, "a"), "ab") == "seconds"
    assert decides_in(pace_errors(well, "a"), "abc") == "steps", "one of them was not measured"
    assert decides_in(pace_errors(badly, "a"), "a") == "seconds", "there is nobody to compare with"
    assert own_pace_errors("a", {}, costs)["a"] == pytest.approx(0.077, rel=0.02)
