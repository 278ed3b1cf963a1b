"""Early ends that lose nothing."""

from __future__ import annotations

import math

import numpy as np

from fallline.race.clock.step_clock import StepClock
from fallline.race.plan import Rules
from fallline.race.results import Calibrated, Row
from fallline.race.verdict.early_stop import (
    OWN_STUDY,
    PAST_TAU_MAX,
    EarlyStop,
    fastest_medians,
    late_studies,
    latest,
    without_late,
)
from fallline.score import profiles
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


def test_of_an_even_number_of_studies_one_may_be_late_and_the_median_in_time() -> None:
    rows = [row(1, "a", 0, 1, 15, "reached"), row(2, "a", 1, 1, 15, "reached"), row(3, "b", 0, 1), row(4, "b", 1, 1)]
    stop = EarlyStop(rows, Rules(tau_max=4.0), CLOCK)
    # The median of b's two is their mean: 4 × 15 = 60 seconds are passed for certain by one of more than 120.
    assert stop.reason(rows[2], 60) is None
    assert stop.reason(rows[2], 61) == PAST_TAU_MAX


def test_early_ends_leave_scores_as_they_are() -> None:
    """Against what --no-early-stop gives: any time that may end early does, or goes on, by the toss of a coin."""
    generator = np.random.default_rng(0)
    names, workloads, variants = ("a", "b", "c"), ("mri", "chars"), {"mri_tanh": "mri"}
    changed = 0
    for run in range(400):
        studies = 1 + run % 6
        cells = {
            (name, workload): dict(enumerate(np.exp(generator.normal(0.0, 1.2, studies)).tolist()))
            for name in names
            for workload in (*workloads, *variants)
        }
        whole = StudyTimes(names, workloads, variants, cells)
        fastest = fastest_medians(whole)
        ended = {
            key: {
                study: math.inf
                if time > latest(fastest.get(key[1], math.inf), studies, 4.0) and generator.random() < 0.5
                else time
                for study, time in cell.items()
            }
            for key, cell in cells.items()
        }
        early = StudyTimes(names, workloads, variants, ended)
        counted = without_late(early, late_studies(early, 4.0))
        assert counted.cells == without_late(whole, late_studies(whole, 4.0)).cells, "whatever ended early"
        changed += counted.cells != whole.cells
        in_time = [profiles.apply_rules(t.medians(), workloads, variants, 4.0).tolist() for t in (whole, counted)]
        assert in_time[0] == in_time[1]
    assert changed > 100, "this compares nothing"


def test_who_reached_a_workload_late_sets_the_pace_on_its_variant_all_the_same() -> None:
    rows = [row(1, "a", 0, 1, 10, "reached"), row(2, "b", 0, 1), row(3, "b", 0, 1, workload="mri_tanh")]
    assert EarlyStop(rows, Rules(), CLOCK).reason(rows[1], 90) is None, "whether b reaches mri matters on mri_tanh"
    assert EarlyStop(rows[:2], Rules(), CLOCK).reason(rows[1], 90) == PAST_TAU_MAX


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
    assert late_studies(StudyTimes(("a", "b"), ("mri",), {"tanh": "mri"}, cells), tau_max=4.0) == set()
    cells["a", "mri"] = {0: 100.0}
    found = late_studies(StudyTimes(("a", "b"), ("mri",), {"tanh": "mri"}, cells), tau_max=4.0)
    assert found == {("b", "tanh", 0)}, "a reached the workload, however late"
