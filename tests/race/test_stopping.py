"""Early ends that lose nothing."""

from __future__ import annotations

from fallline.race.plan import Rules
from fallline.race.results import Row
from fallline.race.stopping import OWN_STUDY, PAST_TAU_MAX, EarlyStop


def row(
    id: int, contestant: str, study: int, number: int, reached: int | None = None, status: str | None = None
) -> Row:
    return Row(id, "race", "w", contestant, study, number, 0, {}, 100, status, None, reached, None, None, None, 0, None)


COST = {("w", "a"): 1.0, ("w", "b"): 2.0}


def test_a_trial_ends_once_its_own_study_has_a_faster_one() -> None:
    rows = [row(1, "a", 0, 1, 50, "reached"), row(2, "a", 0, 2), row(3, "a", 1, 1)]
    stop = EarlyStop(rows, Rules(), COST)
    assert stop.reason(rows[1], 40) is None
    assert stop.reason(rows[1], 50) == OWN_STUDY
    assert stop.reason(rows[2], 90) is None, "another study"


def test_a_trial_ends_past_tau_max_times_a_contestant_that_has_finished() -> None:
    rows = [row(1, "a", 0, 1, 10, "reached"), row(2, "a", 1, 1, 20), row(3, "b", 0, 1)]
    stop = EarlyStop(rows, Rules(tau_max=4.0), COST)
    assert stop.reason(rows[2], 90) is None, "a has a study to go: its median is not known"
    stop.ended(rows[1])
    # Median of 10 and 20 seconds; b's steps take two: 4 × 15 = 60 are passed after 30 of them.
    assert stop.reason(rows[2], 30) is None
    assert stop.reason(rows[2], 31) == PAST_TAU_MAX


def test_nothing_ends_early_with_an_equal_budget_or_when_asked_not_to() -> None:
    rows = [row(1, "a", 0, 1, 10, "reached"), row(2, "a", 0, 2)]
    for rules in (Rules(ruleset="budget"), Rules(early_stop=False)):
        assert EarlyStop(rows, rules, COST).reason(rows[1], 99) is None
