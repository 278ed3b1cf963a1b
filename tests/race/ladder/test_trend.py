"""Trends that were planted are found as far as they can be known, and intervals hold what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.ladder.trend import Advantages, Trend, farthest, noise_share, trends

RUNGS = (0.5, 1.0, 2.0)
NOISE = 0.02


def known(
    values: list[list[float]], noise: float | None = NOISE, rungs: tuple[float, ...] = RUNGS, degrees: float = 8
) -> Advantages:
    table = np.array(values)
    names = tuple("abcdefghij"[: len(table)])
    return Advantages(names, rungs, table, None if noise is None else noise**2 / 3 * np.eye(len(rungs)), degrees)


def one(values: list[list[float]], noise: float | None = NOISE) -> Trend:
    return trends(known(values, noise), [4.0])[0]


CONSTANT = [[0.1] * 3, [-0.05] * 3, [0.2] * 3, [-0.12] * 3]
HALVING = [[0.2, 0.1, 0.05], [-0.1, -0.05, -0.025], [-0.3, -0.15, -0.075], [0.12, 0.06, 0.03]]
CROSSING = [[-0.1, 0.0, 0.1], [0.06, 0.05, 0.07], [0.2, 0.1, 0.02], [-0.05, -0.02, -0.06]]


def test_an_advantage_that_does_not_change_is_expected_to_stay() -> None:
    trend = one(CONSTANT)
    assert trend.ahead[0].mean == pytest.approx(0.1, abs=0.01)
    assert trend.ahead[0].low > 0 and trend.ahead[0].positive > 0.99
    assert trend.change.low < 0 < trend.change.high, "there is no trend to be seen"


def test_where_all_advantages_halve_the_next_halving_is_expected() -> None:
    found = trends(known(HALVING, 0.01), [4.0])
    for trend, (*_, last) in zip(found, HALVING, strict=True):
        assert trend.ahead[0].mean == pytest.approx(last / 2, abs=0.006)
        assert trend.ahead[0].low < last / 2 < trend.ahead[0].high
    assert found[0].change.high < 0 < found[1].change.low


def test_a_contestant_that_overtakes_the_reference_is_not_sent_on_along_its_own_line() -> None:
    trend = one(CROSSING)
    assert trend.change.low > 0, "the change itself is seen"
    free_line = 0.2
    assert trend.ahead[0].mean < (0.1 + free_line) / 2
    assert trend.ahead[0].low < 0 < free_line < trend.ahead[0].high, "among irregular rivals nobody knows"


def test_the_reference_is_a_contestant_like_the_others() -> None:
    """Seen from another contestant, differences are the same."""
    seen = trends(known(CROSSING), [4.0])
    table = np.array([[0.0] * 3, *CROSSING])
    other = trends(known((table[[0, 2, 3, 4]] - table[1]).tolist()), [4.0])
    for name, row in zip("abcd", other, strict=True):
        expected = (0.0 if name == "a" else seen["abcd".index(name)].ahead[0].mean) - seen[0].ahead[0].mean
        # The sizes that the priors are relative to depend a little on the point of view.
        assert row.ahead[0].mean == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("noise", [NOISE, None])
def test_units_and_directions_do_not_matter(noise: float | None) -> None:
    plain = one(CROSSING, noise).ahead[0]
    scaled = one([[-10 * value for value in row] for row in CROSSING], None if noise is None else 10 * noise).ahead[0]
    assert (scaled.mean, scaled.low, scaled.high) == pytest.approx(
        (-10 * plain.mean, -10 * plain.high, -10 * plain.low)
    )


def test_farther_ahead_less_is_known() -> None:
    trend = trends(known(CROSSING), [4.0, 8.0])[0]
    near, far = (guess.high - guess.low for guess in trend.ahead)
    assert far > 1.2 * near


def test_more_noise_says_less() -> None:
    def width(noise: float) -> float:
        scatter = np.random.default_rng(5).normal(0, noise * math.sqrt(2 / 3), (4, 3))
        guess = trends(known((CONSTANT + scatter).tolist(), noise), [4.0])[0].ahead[0]
        return guess.high - guess.low

    assert width(0.005) < width(0.02) < width(0.08)


def test_noise_is_to_blame_where_rungs_differ_by_no_more_than_it_explains() -> None:
    assert noise_share(known([[0.05, 0.09, 0.02], [0.1, 0.02, 0.07], [-0.02, 0.05, 0.0]], noise=0.2)) == 1.0
    assert noise_share(known(CROSSING, noise=1e-4)) < 0.01
    assert noise_share(known(CROSSING, noise=None)) == 0.0
    # One change of 0.1 a doubling; noise alone would make changes of √2 × 0.02 / √3 of a contestant's own.
    assert noise_share(known([[0.0, 0.1, 0.2]])) == pytest.approx(2 * NOISE**2 / 3 / (0.1**2 / 2))


def test_a_rung_that_is_missing_is_filled_from_the_others() -> None:
    trend = one([[math.nan, 0.1, 0.1], *CONSTANT[1:]])
    assert trend.ahead[0].mean == pytest.approx(0.1, abs=0.02)
    with pytest.raises(ValueError, match="everybody needs a value there"):
        one([[0.1, 0.1, math.nan], *CONSTANT[1:]])


@pytest.mark.parametrize("values", [[[0.1, 0.1, 0.1]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[0.3, -0.2, 0.1]]])
@pytest.mark.parametrize("noise", [0.0, None])
def test_few_contestants_and_no_noise_give_numbers(values: list[list[float]], noise: float | None) -> None:
    for trend in trends(known(values, noise), [4.0]):
        for guess in (*trend.rungs, trend.change, *trend.ahead):
            assert guess.low <= guess.mean <= guess.high
            assert math.isfinite(guess.high - guess.low) and 0 <= guess.positive <= 1


def test_one_rung_is_no_ladder() -> None:
    with pytest.raises(ValueError, match="at least two rungs"):
        trends(Advantages(("a",), (1.0,), np.array([[0.1]])), [2.0])
    assert trends(Advantages((), RUNGS, np.empty((0, 3))), [4.0]) == []


def test_ladders_are_extended_by_half_of_their_length() -> None:
    assert farthest([0.5, 1, 2]) == 4 and farthest([1, 2, 4, 8, 16]) == 64
    assert farthest([1, 2, 4, 8, 16, 32, 64]) == 256, "two doublings at most"


@pytest.mark.parametrize(("ratio", "slope", "wander"), [(1.0, 0.0, 0.01), (0.7, 0.0, 0.02), (0.85, 0.02, 0.02)])
def test_intervals_hold_the_truth_as_often_as_they_say(ratio: float, slope: float, wander: float) -> None:
    """Worlds that are drawn: levels, a common ratio, slopes, random walks, three studies a cell."""
    rng = np.random.default_rng(17)
    inside, better, total = 0, 0, 0
    x = np.log2(np.array([*RUNGS, 4.0]) / 2)
    for _ in range(12):
        level = rng.normal(0, 0.1, (6, 1))
        walk = np.cumsum(rng.normal(0, wander, (6, 4)), axis=1)
        truth = ratio**x * (level + rng.normal(0, slope, (6, 1)) * x + walk)
        seen = truth[:, :3] + rng.normal(0, 0.03 / math.sqrt(3), (6, 3))
        advantage, real = seen[1:] - seen[0], (truth[1:] - truth[0])[:, 3]
        found = [t.ahead[0] for t in trends(known(advantage.tolist(), 0.03), [4.0])]
        lines = [np.polyval(np.polyfit(x[:3], row, 1), x[3]) for row in advantage]
        inside += sum(guess.low <= value <= guess.high for guess, value in zip(found, real, strict=True))
        error = np.mean([abs(guess.mean - value) for guess, value in zip(found, real, strict=True)])
        better += bool(error < np.mean(np.abs(lines - real)))
        total += len(real)
    assert inside / total >= 0.9, "95 % are promised; 60 predictions"
    assert better >= 8, "shrunken trends err less than lines of their own"
