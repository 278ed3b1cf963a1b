"""Early ends that lose nothing."""

from __future__ import annotations

import math

from fallline.race.clock import StepClock
from fallline.race.plan import Rules
from fallline.race.results import Calibrated, Row
from fallline.race.stopping import OWN_STUDY, PAST_TAU_MAX, EarlyStop, late_studies, without_late
from fallline.score.times import StudyTimes


def row(
    id: int,
    contestant: str,
    study: int,
    number: int,
    reached: int | None = None,
    status: str | None = None,
    workload: str = "mri",
) -> Row:
    places = (id, "race", workload, contestant, study, number, 0, {}, 100, status)
    return Row(*places, None, reached, None, None, None, 0, None)


def cost(step: float, switch: float = 0.0) -> Calibrated:
    return Calibrated(step, step, step, switch, 0, 0, None)


WORKLOADS = ("mri", "mri_tanh")
COSTS = {(w, c): cost(seconds) for w in WORKLOADS for c, seconds in (("a", 1.0), ("b", 2.0))}
CLOCK = StepClock(Rules(), COSTS, dict.fromkeys(WORKLOADS, 10))


def test_a_trial_ends_once_its_own_study_has_a_faster_one() -> None:
    rows = [row(1, "a", 0, 1, 50, "reached"), row(2, "a", 0, 2), row(3, "a", 1, 1)]
    stop = EarlyStop(rows, Rules(), CLOCK)
    assert stop.reason(rows[1], 40) is None
    assert stop.reason(rows[1], 50) == OWN_STUDY
    assert stop.reason(rows[2], 90) is None, "another study"


def test_a_trial_ends_past_tau_max_times_a_contestant_that_has_finished() -> None:
    rows = [row(1, "a", 0, 1, 10, "reached"), row(2, "a", 1, 1, 20), row(3, "b", 0, 1)]
    stop = EarlyStop(rows, Rules(tau_max=4.0), CLOCK)
    assert stop.reason(rows[2], 90) is None, "a has a study to go: its median is not known"
    stop.ended(rows[1])
    # Median of 10 and 20 seconds; b's steps take two: 4 × 15 = 60 are passed after 30 of them.
    assert stop.reason(rows[2], 30) is None
    assert stop.reason(rows[2], 31) == PAST_TAU_MAX


def test_nothing_ends_early_with_an_equal_budget_or_when_asked_not_to() -> None:
    rows = [row(1, "a", 0, 1, 10, "reached"), row(2, "a", 0, 2)]
    for rules in (Rules(ruleset="budget"), Rules(early_stop=False)):
        assert EarlyStop(rows, rules, CLOCK).reason(rows[1], 99) is None


def test_switches_to_averaged_weights_count_where_times_are_compared() -> None:
    costs = {("mri", "a"): cost(1.0, switch=5.0), ("mri", "b"): cost(1.0)}
    rows = [row(1, "a", 0, 1, 20, "reached"), row(2, "b", 0, 1)]
    stop = EarlyStop(rows, Rules(), StepClock(Rules(), costs, {"mri": 10}))
    # a: 20 steps and 2 switches are 30 seconds, so that 4 times as much is 120.
    assert stop.reason(rows[1], 120) is None
    assert stop.reason(rows[1], 121) == PAST_TAU_MAX


def test_who_missed_the_workload_sets_no_pace_on_its_variant() -> None:
    fast = [row(1, "a", 0, 1, 5, "reached", "mri_tanh"), row(2, "b", 0, 1, workload="mri_tanh")]
    missed = row(3, "a", 0, 1, None, "over budget")
    reached = row(3, "a", 0, 1, 50, "reached")
    assert EarlyStop([*fast, missed], Rules(), CLOCK).reason(fast[1], 90) is None
    assert EarlyStop([*fast, reached], Rules(), CLOCK).reason(fast[1], 90) == PAST_TAU_MAX


def test_whether_a_late_trial_was_ended_or_went_on_makes_no_difference() -> None:
    def table(late: float) -> StudyTimes:
        cells = {("a", "mri"): {0: 10.0, 1: 12.0, 2: 14.0}, ("b", "mri"): {0: 30.0, 1: 47.0, 2: late}}
        return StudyTimes(("a", "b"), ("mri",), {}, cells)

    for time in (49.0, 500.0, math.inf):
        assert late_studies(table(time), tau_max=4.0) == {("b", "mri", 2)}
        counted = without_late(table(time), late_studies(table(time), tau_max=4.0))
        assert counted.cell("b", "mri") == {0: 30.0, 1: 47.0, 2: math.inf}
        assert counted.cell("a", "mri") == table(time).cell("a", "mri")
    assert late_studies(table(48.0), tau_max=4.0) == set()


def test_on_a_variant_only_those_who_reached_its_workload_set_the_pace() -> None:
    cells = {("a", "mri"): {0: math.inf}, ("a", "tanh"): {0: 1.0}, ("b", "mri"): {0: 10.0}, ("b", "tanh"): {0: 20.0}}
    assert late_studies(StudyTimes(("a", "b"), ("mri",), {"tanh": "mri"}, cells), tau_max=4.0) == {("a", "mri", 0)}
