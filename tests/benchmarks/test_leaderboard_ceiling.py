"""Agreement of orders with themselves and with AlgoPerf's, on tables that are made up here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import leaderboard_ceiling as ceiling
from fallline.score.algoperf import BASE_WORKLOADS, Target
from fallline.score.logs import Trial
from fallline.score.times import StudyTimes
from fallline.workloads import ALGOPERF

NAMES = ("schedule_free_adamw", "cyclic_lr", "amos")
"""In the published order."""


def times(spread: float, workloads: tuple[str, ...] = ALGOPERF) -> dict[tuple[str, str], list[float]]:
    rng = np.random.default_rng(0)
    return {
        (name, workload): (place * np.exp(rng.normal(0, spread, 4))).tolist()
        for place, name in enumerate(NAMES, 2)
        for workload in workloads
    }


def test_without_noise_an_order_agrees_with_itself_and_with_noise_less() -> None:
    def itself(spread: float) -> float:
        known = times(spread, ALGOPERF[:2])
        return ceiling.against_itself(known, lambda t: ceiling.scores(t, NAMES, ALGOPERF[:2]))["halves"]["mean"]

    assert itself(0.0) == 1.0 and itself(1.0) < 0.9


def test_halves_divide_the_studies_of_every_cell() -> None:
    known = times(0.3)
    first, second = ceiling.in_halves(known, np.random.default_rng(1))
    assert all(sorted([*first[key], *second[key]]) == sorted(known[key]) for key in known)
    assert {len(cell) for cell in first.values()} == {2}


def test_scores_are_algoperfs() -> None:
    known = {(name, w): [float(place)] for place, name in enumerate(NAMES, 1) for w in ALGOPERF}
    assert ceiling.scores(known, NAMES, ALGOPERF) == pytest.approx([1.0, 2 / 3, 1 / 3])


def test_misses_are_taken_from_the_side_that_is_named() -> None:
    ours = {(name, w): [1.0] for name in NAMES for w in ALGOPERF}
    theirs = {(name, w): [1.0] for name in NAMES for w in BASE_WORKLOADS}
    for w in ALGOPERF:
        ours["schedule_free_adamw", w] = [math.inf]
    for w in BASE_WORKLOADS:
        theirs["amos", w] = [math.inf]
    for w in BASE_WORKLOADS[:3]:
        theirs["cyclic_lr", w] = [math.inf]
    found = ceiling.role_of_misses(ours, theirs, NAMES, dict.fromkeys(ALGOPERF, 1.0))
    assert found["equal times, AlgoPerf's misses"] == found["our times, AlgoPerf's misses"] == 1.0
    assert found["equal times, our misses"] < 0 and found["our times, no misses"] == 0.0


def trial(name: str, values: list[float], study: int = 0) -> Trial:
    at = np.arange(1.0, len(values) + 1)
    return Trial(name, study, "wmt", 1, at, at, np.array(values), 1.0, 1.0)


def test_an_earlier_target_is_what_the_baseline_has_by_then() -> None:
    run = trial("baseline", [1.0, 2.0, 4.0, 8.0, 3.0])
    target = Target("bleu", 8.0)
    assert ceiling._value_after(run, target, 0.5) == 2.0 and ceiling._value_after(run, target, 1.0) == 8.0
    missed = Target("bleu", 9.0)
    assert ceiling._value_after(run, missed, 0.5) == 2.0, "of a training that misses, a share of all of it"
    falling = Target("wer", 0.1)
    assert ceiling._value_after(trial("baseline", [0.9, 0.5, 0.6, 0.1]), falling, 0.75) == 0.5
    better = trial("baseline", [5.0, 9.0])
    assert ceiling._fastest([run, better], missed) is better


def test_leaving_entries_out() -> None:
    assert ceiling.leaving_out([3.0, 1.0, 2.0], NAMES) == {"schedule_free_adamw": -1.0, "cyclic_lr": 1.0, "amos": 1.0}


def test_a_tighter_budget_is_missed_by_whoever_is_slower_than_the_baseline() -> None:
    names = ("schedule_free_adamw", "amos", "baseline")
    times = {(name, w): [seconds] * 3 for name, seconds in zip(names, (8.0, 15.0, 10.0), strict=True) for w in ALGOPERF}
    found = {row["factor"]: row["misses"] for row in ceiling.tighter_budgets(times, names)}
    assert found[1.0] == found[1.3] == len(ALGOPERF) and found[1.5] == found[2.0] == 0


def test_entries_take_their_names_in_the_logs() -> None:
    table = StudyTimes(("shampoo", "amos"), ("w",), {}, {("shampoo", "w"): {0: 1.0}, ("amos", "w"): {0: 2.0}})
    renamed = ceiling.as_in_the_logs(table, {"shampoo": "shampoo_submission"})
    assert renamed.contestants == ("shampoo_submission", "amos")
    assert renamed.cell("shampoo_submission", "w") == {0: 1.0} and renamed.cell("amos", "w") == {0: 2.0}
