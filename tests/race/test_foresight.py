"""A plan of rounds promises what the rule then finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.plan.foresight import Pace, enough, foresee
from fallline.score.decision import Times, take_look
from fallline.score.decision.schedule import looks_up_to


@pytest.mark.parametrize(("studies", "contestants"), [(3, 2), (3, 5), (8, 3)])
def test_the_bound_that_is_foreseen_is_that_of_equal_contestants(studies: int, contestants: int) -> None:
    random, noise, looks = np.random.default_rng(0), 0.05, len(looks_up_to(studies))
    bounds, gaps = [], []
    for _ in range(60):
        values = {str(c): list(noise * random.standard_normal(studies)) for c in range(contestants)}
        look = take_look(Times(values), number=looks, choice="0")
        if look.bound is not None and len(look.racing) == contestants:
            bounds.append(look.bound)
            standing = look.standing("1")
            gaps.append((standing.high or 0.0) - (standing.gap or 0.0))
    foreseen = foresee(studies, contestants, noise)
    # With a fixed choice a bound also has the largest of the gaps in it, which are zero on average.
    assert 0.7 < np.median(bounds) / math.log1p(foreseen.bound) < 1.6
    assert 0.8 < np.median(gaps) / math.log1p(foreseen.detectable) < 1.25


def test_more_studies_and_less_noise_promise_more() -> None:
    assert (
        foresee(3, 5, 0.1).bound > foresee(3, 5, 0.05).bound > foresee(12, 5, 0.05).bound > foresee(12, 2, 0.05).bound
    )
    assert foresee(7, 2, 0.05).studies == 6, "a look is at complete rounds"
    assert Pace(0.1, 0.3, 3, 0.0).studies_within(0.05, 40) == 0


def test_measuring_steps_between_rounds_takes_time_from_studies() -> None:
    free, measured = Pace(0.0, 0.3, 3, 0.0), Pace(0.0, 0.3, 3, 0.1)
    assert measured.hours(8) == pytest.approx(free.hours(8) + 5 * 0.1), "looks at 3, 4, 5, 6 and 8"
    assert measured.studies_within(1.0, 40) < free.studies_within(1.0, 40)


def test_so_many_studies_are_enough_and_fewer_are_not() -> None:
    studies = enough(0.05, 5, 0.05)
    assert studies is not None
    before = [n for n in looks_up_to(studies) if n < studies]
    assert foresee(studies, 5, 0.05).bound <= 0.05 < foresee(before[-1], 5, 0.05).bound
    assert enough(0.001, 5, 0.5) is None
