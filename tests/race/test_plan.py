"""Which trials a race has: common draws for all, own ones for a second name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fallline.cli.race_request import read_entries
from fallline.measure.store import StoreError
from fallline.race.contestants import named
from fallline.race.estimate import estimate
from fallline.race.plan import BUDGET, RULESETS, SELF, TARGET, Entry, Rules, Trial, trials
from fallline.race.results import Calibrated, Results
from fallline.workloads import load
from tests.race import write_workload

RULES = Rules(trials=5, studies=6)


def planned(*names: str) -> dict[str, list[Trial]]:
    made = trials([Entry("rosenbrock", load("rosenbrock"))], [named(name) for name in names], RULES)
    return {name.partition("=")[0]: [t for t in made if t.contestant == name.partition("=")[0]] for name in names}


def test_trials_of_a_study_have_the_same_seeds_and_with_the_same_space_the_same_points() -> None:
    found = planned("adamw", "nadamw", "lion")
    seeds = {name: [t.seed for t in made] for name, made in found.items()}
    assert seeds["adamw"] == seeds["nadamw"] == seeds["lion"] and len(set(seeds["adamw"])) == 30
    points = {name: [t.point for t in made] for name, made in found.items()}
    assert points["adamw"] == points["nadamw"] != points["lion"]


def test_who_has_no_tuning_may_take_more_steps_and_what_sets_a_target_fewer() -> None:
    assert Rules().most_steps(100) == Rules(ruleset=BUDGET).most_steps(100) == 100
    assert Rules(ruleset=SELF).most_steps(100) == 300
    assert Rules(ruleset=SELF, self_factor=1.5).most_steps(5) == 8
    assert [Rules(ruleset=ruleset).most_steps(100, TARGET) for ruleset in RULESETS] == [66, 66, 66]
    assert Rules().most_steps(1, TARGET) == 1


def test_a_second_name_has_seeds_and_points_of_its_own() -> None:
    found = planned("adamw", "twin=adamw", "other=adamw")
    for a, b in (("adamw", "twin"), ("adamw", "other"), ("twin", "other")):
        assert not {t.seed for t in found[a]} & {t.seed for t in found[b]}
        assert not {t.point["lr"] for t in found[a]} & {t.point["lr"] for t in found[b]}


def test_nobodys_trials_depend_on_who_else_races() -> None:
    assert planned("adamw")["adamw"] == planned("lion", "adamw", "twin=adamw")["adamw"]


def test_a_budget_below_the_interval_of_evaluations_is_evaluated_on_its_way(tmp_path: Path) -> None:
    spec = str(write_workload(tmp_path, max_steps=1500, eval_every=50))
    (short,) = read_entries([spec], None, 45, held_out=False)
    assert (short.workload.max_steps, short.workload.eval_every) == (45, 1)
    assert short.changes == {"max_steps": 45, "eval_every": 1}, "workers make the same of it"
    (longer,) = read_entries([spec], None, 60, held_out=False)
    assert longer.workload.eval_every == 50 and longer.changes == {"max_steps": 60}


def test_a_plan_takes_step_times_from_the_results_file(tmp_path: Path) -> None:
    spec = str(write_workload(tmp_path))
    entry, path = Entry(spec, load(spec)), tmp_path / "r.sqlite"
    with Results(path) as results:
        results.begin([entry], [named("adamw")], RULES)
        results.set_calibration("tiny", {"adamw": Calibrated(60.0, 59.0, 61.0, 0.0, 1, 1, 2**30)}, {}, {})
    found = estimate([entry], [named("adamw"), named("lion")], RULES, 2, path)
    assert found.by_workload["tiny"].step_seconds["adamw"] == 60.0
    assert 0.0 < found.by_workload["tiny"].step_seconds["lion"] < 60.0
    # 30 trials of at most 120 minutes each; lion's take next to nothing.
    assert math.isclose(found.training_hours, 60.0, rel_tol=0.1)
    assert found.memory_gib >= 2.0
    # 30 trials of two hours, two at a time; lion's steps are still to be measured.
    assert math.isclose(found.hours, 30.0, rel_tol=0.2) and found.calibration_seconds > 0
    text = " ".join(found.lines())
    assert "to measure steps" in text and "At most 30." in text


def test_a_plan_for_a_file_of_another_race_says_what_the_race_would_say(tmp_path: Path) -> None:
    spec = str(write_workload(tmp_path))
    entry, path = Entry(spec, load(spec)), tmp_path / "r.sqlite"
    with Results(path) as results:
        results.begin([entry], [named("adamw")], RULES)
        results.add_trials(trials([entry], [named("adamw")], RULES))
        results.start(1, 120)
    with pytest.raises(StoreError, match="holds adamw too"):
        estimate([entry], [named("lion")], RULES, 2, path)
