"""Looks: who leaves, the choice, its bound, and when a race is decided."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fallline.measure.student import t_quantile
from fallline.score.decision import LEADER, LEVEL, NOBODY, ONE_LEFT, WITHIN, Look, Times, looks_up_to, take_look
from fallline.score.decision.evidence import pair_errors
from fallline.score.decision.replay import of_times, replay
from fallline.score.decision.rule import margin


def noisy(gaps: dict[str, float], studies: int, sigma: float = 0.05, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    luck = generator.normal(0.0, sigma / 2, studies)
    return {name: gap + luck + generator.normal(0.0, sigma, studies) for name, gap in gaps.items()}


def test_one_that_is_far_behind_leaves_and_the_others_stay() -> None:
    look = take_look(Times(noisy({"a": 0.0, "b": 0.02, "far": 0.9}, 3)))
    assert look.out == {"far": 1} and set(look.racing) == {"a", "b"}
    far = look.standing("far")
    assert far.low is not None and far.gap is not None and far.high is not None
    assert 0.0 < far.low < far.gap < far.high
    assert look.decided is None and look.bound is not None and look.bound > look.within


def test_a_look_is_the_arithmetic_it_says() -> None:
    rows = noisy({"a": 0.0, "b": 0.02, "c": 0.03}, 5)
    times = Times(rows)
    look = take_look(times, number=2)
    assert look.choice is not None and set(look.racing) == set(rows), "all three are compared"
    reach = []
    for name in set(rows) - {look.choice}:
        found = times.difference(name, look.choice)
        assert found is not None
        standing = look.standing(name)
        wide = t_quantile(LEVEL / 2 / 3 / 2, found.freedom) * found.error()
        assert standing.low == pytest.approx(found.gap - wide) and standing.high == pytest.approx(found.gap + wide)
        reach.append(t_quantile(LEVEL / 2 / 2, found.freedom) * found.error() - found.gap)
    assert look.bound == pytest.approx(max(0.0, *reach))
    assert look.level == LEVEL / 2 and look.freedom == 8


def test_the_race_is_decided_when_one_is_left_or_the_bound_is_small_enough() -> None:
    alone = take_look(Times(noisy({"a": 0.0, "far": 0.9}, 4, sigma=0.01)))
    assert (alone.decided, alone.bound, alone.racing) == (ONE_LEFT, 0.0, ("a",))
    rows = noisy({"a": 0.0, "b": 0.01}, 5, sigma=0.005)
    close = take_look(Times(rows), within=0.05)
    assert close.decided == WITHIN and close.bound is not None and 0.0 < close.bound <= math.log(1.05)
    assert take_look(Times(rows), within=0.05, until=LEADER).decided is None
    assert take_look(Times(rows), within=0.0).decided is None


def test_whoever_leaves_makes_it_easier_for_the_others_to_be_called_slower() -> None:
    """``b`` lies between the levels of eleven and of two contestants, so it leaves after the rest has left."""
    base = noisy({"a": 0.0}, 4, sigma=0.02)["a"]
    wiggle = 0.02 * np.array([1.0, -1.0, -1.0, 1.0])
    for gap in np.linspace(0.0, 0.4, 81):
        two = Times({"a": base, "b": base + gap + wiggle})
        rest = {f"far{i}": base + 3.0 + 0.02 * np.roll([1.0, 1.0, -1.0, -1.0], i) for i in range(9)}
        many = Times({"a": base, "b": base + gap + wiggle, **rest})
        difference = many.difference("b", "a")
        assert difference is not None
        first = t_quantile(LEVEL / 110, difference.freedom) * difference.error()
        last = t_quantile(LEVEL / 2, difference.freedom) * difference.error()
        if last < gap < first:
            assert take_look(many).racing == ("a",)
            assert two.difference("b", "a") is not None
            return
    pytest.fail("no gap was between the two levels")


def test_who_left_stays_out_and_is_still_compared_with_the_choice() -> None:
    times = Times({"a": [1.0, 1.1, 1.0, 1.05], "b": [1.02, 1.1, 1.03, 1.0], "left": [0.5, 0.6, 0.5]})
    look = take_look(times, number=2, out={"left": 1})
    assert look.out == {"left": 1} and look.choice in ("a", "b")
    standing = look.standing("left")
    assert standing.studies == 3 and standing.gap is not None and standing.gap < 0.0


def test_nobody_reached_the_target_is_an_answer() -> None:
    rows = {"a": [math.inf] * 3, "b": [math.nan] * 3}
    look = take_look(Times(rows, miss={"a": 1.0, "b": 1.0}, crashed={"a": 3}))
    assert (look.choice, look.decided, look.bound) == (None, NOBODY, None)
    assert [standing.contestant for standing in look.standings] == ["b", "a"], "a crash ranks below a miss"


def test_a_contestant_alone_is_the_choice() -> None:
    look = take_look(Times({"a": [1.0, 2.0, 3.0]}))
    assert (look.choice, look.decided, look.bound, look.more_studies) == ("a", ONE_LEFT, 0.0, 0)
    assert take_look(Times({})).decided == NOBODY


def test_without_any_noise_a_difference_is_a_difference_and_equals_are_equal() -> None:
    differing = take_look(Times({"a": [1.0] * 3, "b": [1.0 + 1e-6] * 3}))
    assert differing.decided == ONE_LEFT and differing.out == {"b": 1}
    equal = take_look(Times({"a": [1.0] * 3, "b": [1.0] * 3}))
    assert (equal.decided, equal.bound, equal.racing) == (WITHIN, 0.0, ("a", "b"))
    gridded = take_look(Times({"a": [1.0] * 3, "b": [1.0 + 1e-6] * 3}, floor=0.02))
    assert gridded.decided is None and gridded.out == {}


def test_one_study_each_decides_nothing() -> None:
    look = take_look(Times({"a": [1.0], "b": [3.0]}))
    assert look.choice == "a" and look.bound is None and look.decided is None and look.more_studies is None


def test_missed_targets_put_a_contestant_out_and_crashes_too() -> None:
    rows = noisy({"a": 0.0, "b": 0.02, "c": 0.01}, 3, sigma=0.03)
    rows["never"] = np.full(3, math.inf)
    look = take_look(Times(rows, miss={"never": 0.7}, crashed={"never": 3}))
    assert look.out == {"never": 1}
    assert (look.standing("never").reached, look.standing("never").crashed) == (0, 3)
    mild = take_look(Times(rows, miss={"never": 0.05}))
    assert mild.out == {}, "the budget is hardly more than the others take"


def test_pairs_that_differ_by_less_than_the_margin_are_named() -> None:
    rows = noisy({"a": 0.0, "b": 0.005, "c": 0.2}, 12, sigma=0.02)
    look = take_look(Times(rows))
    assert look.either == (("a", "b"),)
    assert take_look(Times({**rows, "b": [math.inf, *rows["b"][1:]]}, miss={"b": 1.0})).either == ()


def test_how_many_more_studies_would_do() -> None:
    rows = noisy({"a": 0.0, "b": 0.01}, 4)
    look = take_look(Times(rows))
    assert look.decided is None and look.more_studies is not None and 0 < look.more_studies < 200
    # At these gaps and this noise: as many and no fewer.
    difference = Times(rows).difference(look.standings[1].contestant, look.choice or "")
    assert difference is not None
    sizes = [size for size in looks_up_to(300) if size >= 4]
    enough = [
        size
        for number, size in enumerate(sizes, 1)
        if t_quantile(LEVEL / number, difference.freedom_with(size)) * difference.error(size) - difference.gap
        <= math.log(1.05)
    ]
    assert 4 + look.more_studies == enough[0]
    close = take_look(Times(noisy({"a": 0.0, "b": 0.01}, 5, sigma=0.005)))
    assert close.more_studies == 0


def test_step_times_that_are_off_forbid_a_decision_however_many_studies() -> None:
    rows = noisy({"a": 0.0, "b": 0.0}, 20, sigma=0.01)
    assert take_look(Times(rows)).decided == WITHIN
    busy = take_look(Times(rows, ratio_errors=pair_errors({"a": 0.08, "b": 0.08})))
    assert busy.decided is None and busy.more_studies is None
    assert busy.bound is not None and busy.bound > 0.2


def test_a_smaller_margin_and_more_studies_go_on_where_the_race_was() -> None:
    rows = noisy({"a": 0.0, "b": 0.02, "far": 0.6}, 40, seed=3)
    times, sizes = of_times(Times(rows)), looks_up_to(40)
    first = replay(times, list(rows), sizes, within=0.1)
    second = replay(times, list(rows), sizes, within=0.02)
    assert first[-1].decided == WITHIN and len(second) > len(first)
    for before, again in zip(first, second[: len(first)], strict=True):
        assert (before.out, before.bound, before.choice) == (again.out, again.bound, again.choice)


def test_a_look_is_plain_data_and_back() -> None:
    look = take_look(Times(noisy({"a": 0.0, "b": 0.0, "far": 0.8}, 8, sigma=0.01, seed=1)))
    assert Look.from_data(json.loads(json.dumps(look.as_data()))) == look
    assert look.either, "a pair makes the test worth more"


def test_the_margin_of_scores_is_in_points() -> None:
    assert margin(0.05, relative=False) == 0.05
    assert math.exp(margin(0.05, relative=True)) == pytest.approx(1.05)
