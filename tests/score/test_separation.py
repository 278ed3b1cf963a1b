"""Telling contestants apart: exact p values, Holm, groups, and the error rate under no difference."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from fallline.measure.stats import ALPHA
from fallline.score.leaderboard import leaderboard, verdict
from fallline.score.separation import (
    Pair,
    compare_all,
    exchange_test,
    fewest_studies,
    groups,
    studies_needed,
)
from fallline.score.times import StudyTimes
from fallline.score.uncertainty import bootstrap, resampled_medians

INF = math.inf


def table(cells: dict[str, list[list[float]]]) -> StudyTimes:
    """Contestant → for every workload the times of its studies."""
    count = len(next(iter(cells.values())))
    workloads = tuple(f"w{j}" for j in range(count))
    return StudyTimes(
        tuple(cells),
        workloads,
        {},
        {(name, workloads[j]): dict(enumerate(times)) for name, rows in cells.items() for j, times in enumerate(rows)},
    )


def test_p_of_complete_separation_is_two_of_all_labellings() -> None:
    assert exchange_test([(np.arange(4.0), np.arange(4.0) + 10)])[1] == pytest.approx(2 / 70)
    strata = [(np.arange(3.0), np.arange(3.0) + 10)] * 2
    assert exchange_test(strata)[1] == pytest.approx(2 / 400)


def test_p_of_equal_samples_is_one() -> None:
    assert exchange_test([(np.ones(5), np.ones(5))]) == (0.0, 1.0)
    assert exchange_test([]) == (0.0, 1.0)


def test_sampled_and_complete_labellings_agree() -> None:
    generator = np.random.default_rng(3)
    strata = [(generator.normal(0.0, 1.0, 5), generator.normal(0.8, 1.0, 5)) for _ in range(2)]  # 63,504: sampled
    by_hand = []
    import itertools

    halves = []
    for a, b in strata:
        pooled = np.concatenate([a, b])
        picks = itertools.combinations(range(10), 5)
        halves.append([pooled[list(p)].mean() - np.delete(pooled, list(p)).mean() for p in picks])
    by_hand = (np.array(halves[0])[:, None] + np.array(halves[1])[None, :]).ravel() / 2
    exact = (np.abs(by_hand) >= abs(by_hand[0]) - 1e-12).mean()
    assert exchange_test(strata)[1] == pytest.approx(exact, abs=0.006)


def test_many_contestants_can_be_separated_though_exchanges_are_drawn() -> None:
    generator = np.random.default_rng(6)
    crowd = {f"c{i:02}": np.exp(generator.normal(0.0, 0.07, (4, 5))).tolist() for i in range(28)}
    pairs = compare_all(table({**crowd, "slow": [[3.0 + 0.01 * study for study in range(5)]] * 4}))
    assert len(pairs) == 406
    apart = [pair for pair in pairs if "slow" in (pair.first, pair.second)]
    assert len(apart) == 28 and all(pair.separated for pair in apart)


def test_no_number_of_studies_is_sought_where_there_is_no_workload() -> None:
    with pytest.raises(ValueError, match="workloads must be >= 1, got 0"):
        fewest_studies(0)


def test_too_few_studies_can_separate_nothing() -> None:
    assert fewest_studies(1) == 5
    far = table({"a": [[1.0, 1.1, 1.2]], "b": [[3.0, 3.1, 3.2]]})
    (pair,) = compare_all(far)
    assert not pair.separated
    assert "fewer than 5 studies" in verdict(leaderboard(far))


def test_groups_hold_those_that_cannot_be_told_apart() -> None:
    def pair(a: str, b: str, p: float) -> Pair:
        return Pair(a, b, 0.1, p, p, None)

    pairs = [pair("a", "b", 0.5), pair("a", "c", 0.001), pair("b", "c", 0.3)]
    assert groups(["a", "b", "c"], pairs) == [("a", "b"), ("b", "c")]
    assert groups(["a", "c"], [pair("a", "c", 0.001)]) == [("a",), ("c",)]


def test_groups_are_all_largest_sets_without_a_separated_pair() -> None:
    generator = np.random.default_rng(3)
    names = list("abcdefg")
    for _ in range(30):
        apart = {frozenset(two) for two in itertools.combinations(names, 2) if generator.random() < 0.4}
        pairs = [Pair(*sorted(two), 0.1, 0.001, 0.001, None) for two in apart]
        alike = [set(s) for size in range(1, 8) for s in itertools.combinations(names, size)]
        alike = [s for s in alike if not any(two <= s for two in apart)]
        largest = {frozenset(s) for s in alike if not any(s < other for other in alike)}
        found = groups(names, pairs)
        assert {frozenset(group) for group in found} == largest and len(found) == len(largest)


def test_groups_of_many_that_are_all_alike_take_no_time() -> None:
    names = [f"c{i}" for i in range(60)]
    assert groups(names, []) == [tuple(names)]


def test_more_noise_needs_more_studies() -> None:
    quiet = [(np.array([0.50, 0.52, 0.54]), np.array([0.60, 0.62, 0.64]))]
    noisy = [(np.array([0.40, 0.52, 0.64]), np.array([0.50, 0.62, 0.74]))]
    few, many = studies_needed(quiet), studies_needed(noisy)
    assert few is not None and many is not None and few < many
    assert studies_needed([(np.ones(3), np.ones(3))]) is None


def draw(generator: np.random.Generator, studies: int, workloads: int, slower: float = 1.0) -> list[list[float]]:
    """Study times as in AlgoPerf's logs: 7 % of noise, evaluated at intervals, now and then a miss."""
    times = slower * np.exp(generator.normal(0.0, 0.07, (workloads, studies)))
    times = np.ceil(times * 40) / 40
    times[generator.random((workloads, studies)) < 0.05] = INF
    return times.tolist()


@pytest.mark.parametrize(("studies", "workloads"), [(5, 1), (5, 8), (3, 8)])
def test_the_same_contestant_twice_is_called_different_at_most_at_alpha(studies: int, workloads: int) -> None:
    generator = np.random.default_rng(0)
    runs, called = 400, 0
    for _ in range(runs):
        twins = table({"a": draw(generator, studies, workloads), "b": draw(generator, studies, workloads)})
        called += compare_all(twins)[0].separated
    # Three standard errors above α: fails once in a thousand if the rate is exactly α.
    assert called / runs <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def test_a_slower_twin_is_placed_below_in_nine_of_ten() -> None:
    generator = np.random.default_rng(1)
    below = 0
    for _ in range(100):
        board = leaderboard(table({"slow": draw(generator, 5, 1, slower=1.15), "quick": draw(generator, 5, 1)}))
        below += [row.contestant for row in board.rows] == ["quick", "slow"]
    assert below >= 90


def test_intervals_hold_the_score_and_narrow_with_studies() -> None:
    generator = np.random.default_rng(2)

    def width(studies: int) -> float:
        both = table({"a": draw(generator, studies, 4), "b": draw(generator, studies, 4, slower=1.3)})
        rows = leaderboard(both).rows
        bounds = [(row.low or 0.0, row.score, row.high or 0.0) for row in rows]
        assert all(low <= score <= high for low, score, high in bounds)
        return sum(high - low for low, _, high in bounds)

    assert width(60) < width(5)


def test_a_single_study_has_no_interval() -> None:
    rows = leaderboard(table({"a": [[1.0]], "b": [[1.2]]})).rows
    assert [(row.interval, row.above_next) for row in rows] == [("–", None)] * 2
    assert leaderboard(table({"a": [[1.0, 1.1]]})).rows[0].interval == "1.00 to 1.00"


def test_probability_of_being_above_counts_ties_as_half() -> None:
    same = table({"a": [[1.0, 1.0]], "b": [[1.0, 1.0]], "c": [[2.0, 2.0]]})
    samples = bootstrap(same)
    assert samples.above("a", "b") == 0.5
    assert samples.above("a", "c") == 1.0


def test_luck_that_is_shared_is_no_uncertainty_of_the_order() -> None:
    times = [[4.0, 9.0, 2.0, 7.0, 5.0]]
    own = table({"a": times, "b": [[1.15 * t for t in times[0]]]})
    common = dataclasses.replace(own, common_draws=frozenset("ab"))
    assert bootstrap(own).above("a", "b") < 0.9
    assert bootstrap(common).above("a", "b") == 1.0


def test_luck_of_its_own_is_uncertainty_among_others_with_common_luck() -> None:
    times = [[4.0, 9.0, 2.0, 7.0, 5.0], [14.0, 19.0, 12.0, 17.0, 15.0]]
    three = dataclasses.replace(table({"a": times, "b": times, "twin": times}), common_draws=frozenset("ab"))
    medians = resampled_medians(three, resamples=500, seed=0)
    assert np.array_equal(medians[:, 0], medians[:, 1])
    for column in range(2):
        assert abs(np.corrcoef(medians[:, 0, column], medians[:, 2, column])[0, 1]) < 0.2


def test_verdicts_name_the_leader_and_what_is_missing() -> None:
    generator = np.random.default_rng(4)
    clear = table({"a": draw(generator, 5, 8), "b": draw(generator, 5, 8, slower=2.0)})
    assert verdict(leaderboard(clear)).startswith("a is the fastest: separated from b")
    close = table({"a": draw(generator, 5, 8), "b": draw(generator, 5, 8, slower=1.01)})
    assert "cannot be told apart" in verdict(leaderboard(close))
    assert "Nobody" in verdict(leaderboard(table({"a": [[INF]], "b": [[INF]]})))
    assert "alone" in verdict(leaderboard(table({"a": [[1.0, 2.0]]})))


def test_the_verdict_does_not_call_nobody_who_reached_it_once() -> None:
    once = leaderboard(table({"a": [[INF, INF, INF]], "b": [[INF, 1.0, INF]]}))
    assert verdict(once) == "Nobody reached a target in time in most studies: there is no leader."
    assert [row.contestant for row in once.rows] == ["b", "a"]
    assert verdict(leaderboard(table({"a": [[INF]], "b": [[INF]]}))).startswith("Nobody reached a target in time:")


def test_equal_scores_share_the_lead() -> None:
    same = [[1.0, 1.1, 0.9, 1.2, 1.3, 0.8]]
    both = verdict(leaderboard(table({"a": same, "b": same})))
    assert both.startswith("a and b lead with equal scores (6 studies, α = 2 %); no number of studies")
    three = verdict(leaderboard(table({"a": same, "b": same, "c": [[t + 0.01 for t in same[0]]]})))
    assert three.startswith("a and b lead with equal scores, and cannot be told apart from c (")


def test_an_absurd_number_of_studies_is_not_given_as_if_it_were_known() -> None:
    generator = np.random.default_rng(5)
    times = generator.normal(10.0, 1.0, 6).tolist()
    close = verdict(leaderboard(table({"a": [times], "b": [[t + 1e-4 for t in times]]})))
    assert "more than 1,000 more studies each" in close


def with_pace_errors(times: StudyTimes, error: float) -> StudyTimes:
    return dataclasses.replace(times, pace_errors={key: error for key in times.cells})


@pytest.mark.parametrize(("studies", "spread"), [(5, 0.03), (20, 0.07)])
def test_an_error_of_the_step_time_does_not_tell_twins_apart(studies: int, spread: float) -> None:
    """Their studies alone would: all times of one are multiples of the same wrong number."""
    generator, error, races = np.random.default_rng(7), 0.02, 200
    called = {"with": 0, "without": 0}
    for _ in range(races):
        twins = {name: [(np.exp(generator.normal(0.0, spread, studies))).tolist()] for name in "ab"}
        measured = table(twins).paced({(name, "w0"): math.exp(generator.normal(0.0, error)) for name in "ab"})
        called["without"] += compare_all(measured)[0].separated
        called["with"] += compare_all(with_pace_errors(measured, error))[0].separated
    assert called["without"] / races > 0.06
    assert called["with"] / races <= ALPHA + 2 * math.sqrt(ALPHA / races)


def test_steps_that_cost_more_than_their_error_are_told_apart() -> None:
    steps = [[400.0, 400.0, 425.0, 375.0, 400.0]]
    dearer = table({"a": steps, "b": [[1.15 * t for t in steps[0]]]})
    assert compare_all(with_pace_errors(dearer, 0.015))[0].separated
    (hidden,) = compare_all(with_pace_errors(dearer, 0.06))
    assert hidden.within_pace_error and not hidden.separated and hidden.studies_needed is None
    sentence = verdict(leaderboard(with_pace_errors(dearer, 0.06)))
    assert "a leads, but cannot be told apart from b" in sentence
    assert "their difference is within the error of their step times" in sentence


def test_errors_of_many_workloads_cancel_out_in_part() -> None:
    """10 % on each of nine workloads is more than on one of them can be known."""
    one = table({"a": [[1.0] * 5], "b": [[1.1] * 5]})
    nine = table({"a": [[1.0] * 5] * 9, "b": [[1.1] * 5] * 9})
    assert compare_all(with_pace_errors(one, 0.03))[0].within_pace_error
    assert compare_all(with_pace_errors(nine, 0.03))[0].separated


def test_an_error_of_the_step_time_widens_intervals_and_chances() -> None:
    steps = [[400.0, 400.0, 425.0]]
    close = dataclasses.replace(table({"a": steps, "b": [[1.006 * t for t in steps[0]]]}), common_draws=frozenset("ab"))
    sure, unsure = (bootstrap(t, seed=0) for t in (close, with_pace_errors(close, 0.01)))
    assert sure.above("a", "b") == 1.0
    # The difference is 0.6 %, its error 1.4 %: P(N(0, 1) < 0.42) = 0.66.
    assert unsure.above("a", "b") == pytest.approx(0.66, abs=0.02)
    assert sure.interval("b") == pytest.approx((0.998, 0.998))
    low, high = unsure.interval("b")
    assert low == pytest.approx(1 - (math.exp(0.006 + 1.96 * 0.01414) - 1) / 3, abs=0.001) and high == 1.0


def test_who_has_the_better_median_but_the_worse_studies_does_not_win() -> None:
    sometimes = [10.0] * 8 + [INF] * 7
    board = leaderboard(table({"a": [sometimes], "b": [[11.0] * 15]}))
    assert board.rows[0].contestant == "a" and board.pair("a", "b").better == "b"
    assert verdict(board) == (
        "a has the best score by its medians, but b does better on the mean of all studies, misses included "
        "(15 studies, α = 2 %): there is no leader."
    )
    fewer = leaderboard(table({"a": [[10.0] * 6 + [INF] * 5], "b": [[11.0] * 11]}))
    assert "more studies each would separate b from a" in verdict(fewer)
