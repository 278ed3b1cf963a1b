"""Differences and their errors, against straight-line arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.score.decision import Times
from fallline.score.decision.evidence import WEIGHT, pair_errors

GENERATOR = np.random.default_rng(5)
TABLE = {name: row for name, row in zip("abcd", GENERATOR.normal(0.0, 0.1, (4, 6)), strict=True)}


def least_squares(rows: dict[str, np.ndarray]) -> tuple[float, int]:
    """The residuals of contestant and study effects, by a general solver."""
    names, studies = list(rows), max(map(len, rows.values()))
    cells = [(i, j, rows[name][j]) for i, name in enumerate(names) for j in range(len(rows[name]))]
    design = np.zeros((len(cells), len(names) + studies))
    for place, (i, j, _) in enumerate(cells):
        design[place, i] = design[place, len(names) + j] = 1.0
    values = np.array([value for _, _, value in cells])
    solution, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    return float(np.square(values - design @ solution).sum()), len(cells) - int(rank)


def test_noise_is_the_residual_of_contestants_and_studies() -> None:
    squares, freedom = least_squares(TABLE)
    assert freedom == 15
    assert Times(TABLE).noise == (pytest.approx(squares / freedom), freedom)


def test_noise_of_those_who_left_or_joined_counts_as_far_as_they_ran() -> None:
    rows = {"a": TABLE["a"], "b": TABLE["b"][:3], "c": TABLE["c"], "d": TABLE["d"][:4]}
    squares, freedom = least_squares(rows)
    assert Times(rows).noise == (pytest.approx(squares / freedom), freedom)


def test_the_noise_of_a_pair_is_moderated() -> None:
    times = Times(TABLE)
    pooled, _ = times.noise
    gaps = TABLE["b"] - TABLE["a"]
    found = times.difference("b", "a")
    assert found is not None
    variance = (WEIGHT * pooled + 0.5 * np.square(gaps - gaps.mean()).sum()) / (WEIGHT + 5)
    assert found.gap == pytest.approx(gaps.mean())
    assert found.error() == pytest.approx(math.sqrt(2 * variance / 6))
    assert found.freedom == min(WEIGHT + 5, 15)


def test_of_two_contestants_it_is_the_paired_t_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    from fallline.measure.student import t_tail

    found = Times({"a": TABLE["a"], "b": TABLE["b"]}).difference("b", "a")
    assert found is not None and found.freedom == 5
    p = 2 * t_tail(abs(found.gap) / found.error(), found.freedom)
    assert p == pytest.approx(stats.ttest_rel(TABLE["a"], TABLE["b"]).pvalue)


def test_without_common_draws_luck_is_not_shared() -> None:
    luck = 10.0 * GENERATOR.standard_normal(6)
    together = {name: row + luck for name, row in TABLE.items()}
    paired, own = Times(together), Times(together, paired=False)
    assert paired.noise[0] == pytest.approx(Times(TABLE).noise[0])
    assert own.noise[0] > 100 * paired.noise[0] and own.noise[1] == 20
    paired_pair, own_pair = paired.difference("a", "b"), own.difference("a", "b")
    assert paired_pair is not None and own_pair is not None
    assert own_pair.gap == pytest.approx(paired_pair.gap) and own_pair.error() > 10 * paired_pair.error()


def test_equal_times_on_a_grid_are_known_no_better_than_the_grid() -> None:
    same = {"a": [1.0] * 3, "b": [1.0] * 3}
    exact, gridded = (Times(same, floor=floor).difference("a", "b") for floor in (0.0, 0.02))
    assert exact is not None and gridded is not None
    assert exact.error() == 0.0
    assert gridded.error() == pytest.approx(math.sqrt(2 * 0.02**2 / 3))


def test_errors_of_step_times_stay_however_many_studies() -> None:
    times = Times(TABLE, ratio_errors=pair_errors({"a": 0.03, "b": 0.04}))
    found, reverse = times.difference("b", "a"), times.difference("a", "b")
    assert found is not None and reverse is not None and found.error() == reverse.error()
    assert found.fixed == pytest.approx(0.05**2)
    assert found.error(studies=10**9) == pytest.approx(0.05, rel=1e-6)


def test_a_miss_counts_as_the_budget_against_and_as_four_for_its_contestant() -> None:
    times = Times({"a": [1.0, 1.1, 1.2], "b": [1.0, math.inf, math.nan], "c": [1.3, 1.1, 1.2]}, miss={"b": 2.0})
    behind, ahead = times.difference("b", "a"), times.difference("a", "b")
    assert behind is not None and ahead is not None
    assert behind.gap == pytest.approx((0.0 + (2.0 - 1.1) + (2.0 - 1.2)) / 3)
    assert ahead.gap == pytest.approx((0.0 + (1.1 - 2.0 - math.log(4)) + (1.2 - 2.0 - math.log(4))) / 3)


def test_two_that_missed_the_same_study_are_equal_in_it() -> None:
    rows = {"a": [1.0, math.inf, 1.2], "b": [1.5, math.inf, 1.2], "c": [1.0, 1.1, 1.2], "d": [1.1, 1.0, 1.2]}
    found = Times(rows, miss={"a": 2.0, "b": 2.0}).difference("b", "a")
    assert found is not None and found.gap == pytest.approx(0.5 / 3)


def test_contestants_that_missed_give_no_noise() -> None:
    rows = {"a": TABLE["a"], "b": TABLE["b"], "c": [*TABLE["c"][:5] * 100, math.inf]}
    assert Times(rows, miss={"c": 1.0}).noise == Times({"a": TABLE["a"], "b": TABLE["b"]}).noise


def test_where_all_but_one_missed_its_own_studies_say_how_far_they_scatter() -> None:
    noise, freedom = Times({"a": [1.0, 1.1, 1.2], "b": [math.inf] * 3}, miss={"b": 2.0}).noise
    assert (noise, freedom) == (pytest.approx(0.01), 2)


def test_where_nothing_is_known_of_the_noise_there_is_no_difference() -> None:
    assert Times({"a": [1.0], "b": [2.0]}).difference("b", "a") is None
    assert Times({"a": [math.inf] * 3, "b": [math.inf] * 3}, miss={"a": 1.0, "b": 1.0}).difference("b", "a") is None


def test_the_best_is_chosen_as_if_all_had_run_the_same_studies() -> None:
    # The first two studies were hard for everybody: who ran only these must not look slow for it.
    rows = {"a": [5.0, 5.0, 1.0, 1.0], "late": [4.9, 4.9], "b": [5.2, 5.2, 1.2, 1.2]}
    assert Times(rows).best(rows) == "late"
    assert Times({**rows, "late": [5.1, 5.1]}).best(rows) == "a"


def test_who_reached_is_before_who_missed_and_a_crash_is_after_a_miss() -> None:
    rows = {"crashes": [1.0, math.inf], "misses": [1.0, math.inf], "slow": [2.0, 2.0]}
    times = Times(rows, miss=dict.fromkeys(rows, 2.2), crashed={"crashes": 1})
    assert times.best(["crashes", "misses"]) == "misses"
    assert times.best(rows) == "slow"
    assert times.best([]) is None
