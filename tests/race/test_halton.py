"""The quasirandom points: reference numbers, dealing to studies, and spaces that cannot be searched."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.contestants.halton import BadSpace, bases, check, sequence, study_points, value, van_der_corput

LR = {"min": 1e-4, "max": 1e-2, "scaling": "log"}
REFERENCE = [[0.273974437, 0.286124277], [0.991166706, 0.830019333], [0.230230795, 0.360796326]]
SPACE = {"lr": LR, "momentum": {"min": 0.5, "max": 0.9, "scaling": "linear"}, "k": {"feasible_points": [1, 2, 3]}}


def test_first_points_are_algoperfs() -> None:
    # From a transcription of AlgoPerf's generator: points 101 to 103 of bases 983 and 991.
    assert bases(2) == [983, 991]
    assert sequence(2, 0, 3) == pytest.approx(np.array(REFERENCE), abs=1e-8)


def test_values_by_hand() -> None:
    assert value(LR, 0.0) == pytest.approx(1e-4)
    assert value(LR, 0.25) == pytest.approx(10**-3.5)
    assert value(SPACE["momentum"], 0.25) == pytest.approx(0.6)
    assert [value(SPACE["k"], u) for u in (0.0, 0.34, 0.99)] == [1, 2, 3]


def test_a_block_of_studies_shares_points_without_repeating_any() -> None:
    drawn = [p for study in range(5) for p in study_points(SPACE, trials=5, study=study, seed=0)]
    unit = sequence(3, 0, 25)
    assert sorted(p["lr"] for p in drawn) == pytest.approx(sorted(value(LR, float(u)) for u in unit[:, 0]))
    following = [p["lr"] for p in study_points(SPACE, trials=5, study=5, seed=0)]
    assert not set(following) & {p["lr"] for p in drawn}


@pytest.mark.parametrize("seed", [0, 3])
def test_every_study_of_a_block_tries_a_rate_from_every_fifth(seed: int) -> None:
    studies = [[p["lr"] for p in study_points(SPACE, trials=5, study=s, seed=seed)] for s in range(5)]
    ranked = sorted(lr for rates in studies for lr in rates)
    for rates in studies:
        assert [ranked.index(lr) // 5 for lr in sorted(rates)] == [0, 1, 2, 3, 4]
    assert any(rates != sorted(rates) for rates in studies), "trials do not go up the rates"


def test_points_depend_on_the_seed_and_on_nothing_else() -> None:
    assert study_points(SPACE, trials=5, study=2, seed=7) == study_points(SPACE, trials=5, study=2, seed=7)
    assert study_points(SPACE, trials=5, study=2, seed=7) != study_points(SPACE, trials=5, study=2, seed=8)


def test_points_fill_the_space_evenly() -> None:
    unit = np.array(
        [[math.log10(p["lr"]), p["momentum"]] for s in range(5) for p in study_points(SPACE, trials=5, study=s, seed=3)]
    )
    assert np.histogram(unit[:, 0], bins=5, range=(-4, -2))[0].min() >= 2
    assert np.histogram(unit[:, 1], bins=5, range=(0.5, 0.9))[0].min() >= 2


@pytest.mark.parametrize(
    ("dimension", "said"),
    [
        ({"min": 2.0, "max": 1.0, "scaling": "log"}, "min 2 is above max 1"),
        ({"min": 0.0, "max": 1.0, "scaling": "log"}, "min must be > 0"),
        ({"min": 0.1, "max": 1.0, "scaling": "cubic"}, "scaling must be"),
        ({"min": 0.1}, "max missing; give min and max"),
        ({"feasible_points": []}, "at least one value"),
        (0.1, "must be a table"),
        ({"min": "a", "max": 1.0, "scaling": "log"}, "must be numbers"),
    ],
)
def test_bad_spaces_are_refused_by_name(dimension: object, said: str) -> None:
    with pytest.raises(BadSpace, match=said):
        check({"lr": dimension}, "mine")  # type: ignore[dict-item]


def test_numbers_are_those_of_the_definition_digit_by_digit() -> None:
    random = np.random.RandomState(991)
    digits = list(range(1, 991))
    random.shuffle(digits)
    digits, shift = [0, *digits], random.random_sample()

    def element(index: int) -> float:
        value, denominator = 0.0, 991
        while index:
            value += digits[index % 991] / denominator
            denominator *= 991
            index //= 991
        return math.fmod(value + shift, 1.0)

    found = van_der_corput(991, 980_000, 3000)  # from two digits to three
    assert found.tolist() == [element(980_001 + place) for place in range(3000)]
