"""The verdicts are as often right as they say: known answers by simulation, with binomial bounds.

The noise is that of small shared machines: 5 to 7 % per sample, a heavy right tail, rounds that are slow as a
whole, and a drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fallline.measure.gates import FIRST, changes_nothing, warm_up_left_in
from fallline.measure.interleave import FAR_BEHIND, LOOKS, rounds_between, until_decided
from fallline.measure.stats import ALPHA, compare, holm, sentence

REPEATS = 600


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(at least so many successes)."""
    return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(successes, trials + 1))


def times(draw: np.random.Generator, arms: int, noise: float, slower: float = 0.0) -> np.ndarray:
    """Seconds of so many arms, round by round; the last arm takes ``slower`` more."""
    rounds = LOOKS[-1]
    drift = np.cumsum(draw.normal(0, 0.02, rounds)) + (draw.random(rounds) < 0.1) * draw.exponential(0.3, rounds)
    own = draw.normal(0, noise, (arms, rounds)) + (draw.random((arms, rounds)) < 0.05) * draw.exponential(
        0.5, (arms, rounds)
    )
    found = np.exp(drift + own)
    found[-1] *= 1 + slower
    return found


def measured(found: np.ndarray, family: int = 1) -> dict[str, list[float]]:
    """The samples that the stopping rule takes of these times."""
    names = [chr(ord("a") + i) for i in range(len(found))]
    rule = until_decided(names, seconds=math.inf, family=family)
    for count in LOOKS:
        taken = {name: row[:count].tolist() for name, row in zip(names, found, strict=True)}
        if rule(taken) is not None:
            break
    return taken


def called_different(taken: dict[str, list[float]], family: int) -> bool:
    return compare(taken["a"], taken["b"], looks=len(LOOKS)).p * family <= ALPHA


@pytest.mark.parametrize("noise", [0.05, 0.07])
def test_identical_arms_are_called_different_no_more_often_than_alpha(noise: float) -> None:
    draw = np.random.default_rng(11)
    wrong = sum(called_different(measured(times(draw, 2, noise)), 1) for _ in range(REPEATS))
    # Too many at a rate of 2 % would be a one-in-a-thousand event; none at all would be a test that never speaks.
    assert binomial_tail(wrong, REPEATS, ALPHA) > 0.001, f"{wrong} of {REPEATS}"
    assert wrong > 0


@pytest.mark.parametrize("noise", [0.05, 0.06, 0.07])
def test_planted_ten_percent_are_found(noise: float) -> None:
    """As one of the 90 comparisons of a table of 30 cells and 3 implementations."""
    draw = np.random.default_rng(12)
    found = sum(called_different(measured(times(draw, 2, noise, 0.10), 90), 90) for _ in range(REPEATS))
    assert binomial_tail(REPEATS - found, REPEATS, 0.05) > 0.001, f"{found} of {REPEATS}"


def measured_thinly(found: np.ndarray, family: int) -> dict[str, list[float]]:
    """The samples that the stopping rule takes when the second arm is timed in every few rounds only, as one far behind
    is."""
    every, rule = rounds_between(family), until_decided(["a", "b"], seconds=math.inf, family=family)
    for count in LOOKS:
        taken = {"a": found[0, :count].tolist(), "b": found[1, :count:every].tolist()}
        if rule(taken) is not None:
            break
    return taken


def called_different_unpaired(taken: dict[str, list[float]], family: int) -> bool:
    return compare(taken["a"], taken["b"], paired=False, looks=len(LOOKS)).p * family <= ALPHA


@pytest.mark.parametrize("noise", [0.05, 0.07])
def test_identical_arms_timed_unequally_often_are_called_different_no_more_often_than_alpha(noise: float) -> None:
    """The rank-sum test assumes rounds that are alike, and they drift; samples spread over all rounds bear that."""
    draw = np.random.default_rng(18)
    wrong = sum(called_different_unpaired(measured_thinly(times(draw, 2, noise), 1), 1) for _ in range(REPEATS))
    assert binomial_tail(wrong, REPEATS, ALPHA) > 0.001, f"{wrong} of {REPEATS}"


def test_identical_arms_timed_unequally_often_on_a_machine_that_does_not_drift() -> None:
    draw = np.random.default_rng(19)
    found = np.exp(draw.normal(0, 0.06, (REPEATS, 2, LOOKS[-1])))
    wrong = sum(called_different_unpaired(measured_thinly(one, 1), 1) for one in found)
    assert binomial_tail(wrong, REPEATS, ALPHA) > 0.001, f"{wrong} of {REPEATS}"
    assert wrong > 0


@pytest.mark.parametrize("family", [1, 90, 200])
@pytest.mark.parametrize("noise", [0.05, 0.07])
def test_arms_far_behind_are_found_with_the_few_samples_they_get(family: int, noise: float) -> None:
    draw = np.random.default_rng(20)
    slower = FAR_BEHIND - 1
    found = sum(
        called_different_unpaired(measured_thinly(times(draw, 2, noise, slower), family), family)
        for _ in range(REPEATS // 3)
    )
    assert binomial_tail(REPEATS // 3 - found, REPEATS // 3, 0.05) > 0.001, f"{found} of {REPEATS // 3}"


def test_ten_percent_need_pairs_where_the_machine_drifts() -> None:
    """Thinning gives up pairs, and so is for arms far behind only."""
    draw = np.random.default_rng(21)
    found = {"pairs": 0, "thin": 0}
    for _ in range(REPEATS // 3):
        made = times(draw, 2, 0.06, 0.10)
        found["pairs"] += called_different(measured(made), 1)
        found["thin"] += called_different_unpaired(measured_thinly(made, 1), 1)
    assert found["pairs"] >= 0.95 * (REPEATS // 3) and found["thin"] < 0.9 * found["pairs"], found


def test_tables_of_identical_arms_have_a_false_verdict_in_no_more_than_alpha() -> None:
    draw = np.random.default_rng(13)
    cells, tables, wrong = 5, 150, 0
    for _ in range(tables):
        ps: list[float] = []
        for _ in range(cells):
            taken = measured(times(draw, 3, 0.06), 3 * cells)
            ps += [compare(taken[x], taken[y], looks=len(LOOKS)).p for x, y in (("a", "b"), ("a", "c"), ("b", "c"))]
        wrong += any(p <= ALPHA for p in holm(ps))
    assert binomial_tail(wrong, tables, ALPHA) > 0.001, f"{wrong} of {tables}"


def test_one_bad_cell_stands_out_of_a_table() -> None:
    """Holm's correction over 90 comparisons still leaves a plain difference standing, and nothing else."""
    draw = np.random.default_rng(14)
    ps = []
    for cell in range(30):
        found = times(draw, 3, 0.06, 0.25 if cell == 7 else 0.0)
        a, b, c = (row.tolist() for row in found)
        ps += [compare(a, b).p, compare(a, c).p, compare(b, c).p]
    assert [i for i, p in enumerate(holm(ps)) if p <= ALPHA] == [22, 23]


def test_under_heavy_noise_ten_percent_are_not_distinguishable() -> None:
    draw = np.random.default_rng(15)
    taken = measured(times(draw, 2, 0.6, 0.10))
    found = compare(taken["a"], taken["b"], looks=len(LOOKS))
    text = sentence("a", "b", found)
    assert "not distinguishable" in text
    assert found.repeats_needed is not None and found.repeats_needed > LOOKS[-1]
    assert f"about {found.repeats_needed:,} would settle it" in text


def test_repeats_that_are_advised_do_settle_it() -> None:
    draw = np.random.default_rng(16)

    def pair(count: int) -> tuple[Sequence[float], Sequence[float]]:
        a, b = np.exp(draw.normal(0, 0.2, (2, count)))
        return a.tolist(), (1.05 * b).tolist()

    advised = int(np.median([compare(*pair(200)).repeats_needed or 0 for _ in range(60)]))
    assert 200 < advised < 1500
    found = sum(compare(*pair(advised)).differs for _ in range(200))
    assert binomial_tail(200 - found, 200, 0.10) > 0.001, f"{found} of 200 with {advised} repeats"


@pytest.mark.parametrize("law", [np.random.Generator.standard_normal, np.random.Generator.standard_cauchy])
def test_interval_of_the_ratio_covers_it(law: Callable[..., np.ndarray]) -> None:
    draw = np.random.default_rng(17)
    covered = 0
    for _ in range(REPEATS):
        a, b = np.exp(0.05 * np.clip(law(draw, (2, 18)), -50, 50))
        ratio = compare(a.tolist(), (1.3 * b).tolist()).ratio
        covered += ratio.low <= 1.3 <= ratio.high
    assert binomial_tail(REPEATS - covered, REPEATS, ALPHA) > 0.001, f"{covered} of {REPEATS}"


def test_interval_of_the_ratio_covers_it_without_pairs() -> None:
    draw = np.random.default_rng(22)
    covered = 0
    for _ in range(REPEATS):
        a, b = np.exp(draw.normal(0, 0.05, 18)), 6.0 * np.exp(draw.normal(0, 0.05, 5))
        ratio = compare(a.tolist(), b.tolist(), paired=False).ratio
        covered += ratio.low <= 6.0 <= ratio.high
    assert binomial_tail(REPEATS - covered, REPEATS, ALPHA) > 0.001, f"{covered} of {REPEATS}"
    assert covered < REPEATS


def test_interval_and_verdict_agree_without_pairs() -> None:
    """The interval is of the ratios that the test does not reject, so it holds 1 where there is no verdict."""
    draw = np.random.default_rng(23)
    for _ in range(200):
        a, b = np.exp(draw.normal(0, 0.05, 18)), np.exp(draw.normal(0.06, 0.05, 6))
        found = compare(a.tolist(), b.tolist(), paired=False)
        assert found.differs != (found.ratio.low <= 1.0 <= found.ratio.high)


def test_warm_up_is_found_and_seldom_seen_where_there_is_none() -> None:
    draw = np.random.default_rng(24)
    for rounds in (LOOKS[0], LOOKS[-1]):
        found = {1.0: 0, 1.5: 0}
        for cold in found:
            for _ in range(REPEATS):
                arm, probe = times(draw, 2, 0.07)[:, :rounds]
                arm[:FIRST] *= cold
                found[cold] += warm_up_left_in(arm.tolist(), probe.tolist()) is not None
        assert binomial_tail(found[1.0], REPEATS, 0.001) > 0.001, found
        assert binomial_tail(REPEATS - found[1.5], REPEATS, 0.2) > 0.001, found


def test_size_that_is_ignored_is_found_on_a_machine_that_changes_from_cell_to_cell() -> None:
    """Each size takes the same time, give or take a tenth by which the machine itself changes in minutes."""
    draw = np.random.default_rng(25)
    found = 0
    for _ in range(REPEATS):
        medians = [float(np.median(times(draw, 1, 0.06)[0, :18])) * math.exp(draw.normal(0, 0.05)) for _ in range(3)]
        work = {2**16: 2.0**16, 2**20: 2.0**20, 2**22: 2.0**22}
        found += changes_nothing("size", work, dict(zip(work, medians, strict=True))) is not None
    assert binomial_tail(REPEATS - found, REPEATS, 0.05) > 0.001, f"{found} of {REPEATS}"
