"""When a learning curve crossed its target: between evaluations, in the order in which evaluations met it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallline.race.verdict.crossing import crossing, reached


@pytest.mark.parametrize(
    ("points", "target", "untrained", "expected"),
    [
        # On a line the smoothed curve is the line itself.
        ([(10, 5.0), (20, 4.0), (30, 3.0), (40, 2.0)], 2.25, None, 37.5),
        ([(10, 5.0), (20, 4.0)], 4.5, None, 15.0),
        ([(10, 2.0)], 4.0, 6.0, 5.0),  # from the untrained model
        ([(10, 2.0)], 4.0, None, 10.0),  # which may have no value
        ([(10, 5.0), (20, 4.0), (30, 3.0)], 2.0, None, None),
        ([], 2.0, 3.0, None),
        ([(10, None), (20, 3.0)], 3.5, 9.0, 20.0),  # nothing is known of the evaluation before
        ([(10, 5.0), (20, None), (30, 3.0)], 3.5, None, 25.0),
        ([(10, 5.0), (20, None), (30, 3.0)], 4.5, None, 20.0),  # not before the evaluation that met nothing
        ([(10, 5.0), (20, 4.0), (30, 3.0)], 3.0, None, 30.0),  # exactly there
        ([(10, -1.0), (20, -2.0), (30, -3.0)], -2.5, None, 25.0),
    ],
)
def test_a_crossing_lies_where_the_smoothed_curve_meets_the_target(
    points: list[tuple[float, float | None]], target: float, untrained: float | None, expected: float | None
) -> None:
    for sign, direction in ((1.0, "lower"), (-1.0, "higher")):
        turned = [(step, None if value is None else sign * value) for step, value in points]
        start = None if untrained is None else sign * untrained
        assert crossing(turned, sign * target, direction, start) == (
            None if expected is None else pytest.approx(expected)
        )


def test_three_evaluations_are_smoothed_and_one_lucky_one_does_not_decide_alone() -> None:
    steady = [(10, 5.0), (20, 4.5), (30, 4.0), (40, 3.5)]
    lucky = [*steady[:3], (40, 2.5)]
    # A line through the last two would cross 3.9 at 31 and 30.7; the mean of three is 4.0 at 30, and falls to 3.5.
    assert crossing(steady, 3.9, "lower") == pytest.approx(32.0)
    assert crossing(lucky, 3.9, "lower") == pytest.approx(30.0), "the mean of three is there already, but not before"


def test_nothing_after_the_evaluation_that_met_the_target_counts() -> None:
    points = [(10, 5.0), (20, 4.0), (30, 3.1), (40, 2.0)]
    later = [(50, 3.5), (60, 1.0), (70, 9.0)]
    assert crossing(points, 2.5, "lower") == crossing([*points, *later], 2.5, "lower")


@given(st.lists(st.one_of(st.none(), st.floats(-10, 10)), min_size=1, max_size=8), st.floats(-10, 10))
def test_a_trial_that_met_its_target_at_an_earlier_evaluation_is_never_later(
    values: list[float | None], target: float
) -> None:
    points = [(10.0 * (at + 1), value) for at, value in enumerate(values)]
    met = next((step for step, value in points if value is not None and value <= target), None)
    found = crossing(points, target, "lower", untrained=20.0)
    if met is None:
        assert found is None
    else:
        assert found is not None and met - 10.0 <= found <= met


def test_noise_of_evaluations_moves_a_crossing_less_than_the_evaluation_that_met_it() -> None:
    generator = np.random.default_rng(0)
    steps = np.arange(1, 41) * 25.0
    at_evaluations, smoothed = [], []
    for _ in range(400):
        values = 5.0 - 2.0 * np.log(1 + (steps + generator.normal(0, 8)) / 100) + generator.normal(0, 0.01, 40)
        points = list(zip(steps.tolist(), values.tolist(), strict=True))
        at_evaluations.append(next(step for step, value in points if value <= 1.9))
        smoothed.append(crossing(points, 1.9, "lower"))
    assert np.std(smoothed) < 0.8 * np.std(at_evaluations)
    truth = 100 * (np.exp(3.1 / 2) - 1)
    assert np.mean(smoothed) == pytest.approx(truth, abs=4.0), "and not half an interval late"
    assert np.mean(at_evaluations) > truth + 6.0


def test_seconds_are_interpolated_at_the_same_place() -> None:
    curve = [(10, 5.0, 1.0), (20, 4.0, 2.0), (30, 3.0, 6.0), (40, 2.0, 7.0)]
    found = reached(30, curve, 3.5, "lower", None)
    assert (found.steps, found.seconds) == (pytest.approx(25.0), pytest.approx(4.0))
    first = reached(10, [(10, 2.0, 3.0)], 4.0, "lower", 6.0)
    assert (first.steps, first.seconds) == (pytest.approx(5.0), pytest.approx(1.5))
    assert reached(20, curve, None, "lower", None).steps == 20.0, "the race said so when it had a target"
