"""Which trials a race has: common draws for all, own ones for a second name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fallline
from fallline.cli.race.request import read_entries
from fallline.measure.store import StoreError
from fallline.memory import memory_of
from fallline.race.clock.step_clock import StepClock
from fallline.race.contestants import Contestant, named
from fallline.race.estimate import estimate
from fallline.race.plan import (
    BUDGET,
    EXTERNAL,
    RULESETS,
    SELF,
    TARGET,
    Entry,
    Rules,
    Trial,
    target_trials,
    trials,
    trials_in_study,
)
from fallline.race.progress import RaceError
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


@pytest.mark.parametrize(
    ("rules", "setting", "runs"),
    [
        (Rules(ruleset=BUDGET, trials=1, studies=2), True, 3),
        (Rules(ruleset=SELF, trials=5, studies=4), True, 4),
        (Rules(ruleset=BUDGET, trials=5, studies=2), False, 5),
        (Rules(ruleset=EXTERNAL, trials=5, studies=2), False, 5),
    ],
)
def test_who_is_not_tuned_sets_a_target_with_its_one_setting_and_several_seeds(
    rules: Rules, setting: bool, runs: int
) -> None:
    adamw = named("adamw")
    made = target_trials(Entry("rosenbrock", load("rosenbrock")), adamw, rules)
    assert len(made) == len({t.seed for t in made}) == len({(t.study, t.number) for t in made}) == runs
    fixed = adamw.trial_points(trials=1, study=0, seed=1, tuned=False)
    assert all((t.point in fixed) is setting for t in made)


@pytest.mark.parametrize("rules", [Rules(trials=4), Rules(ruleset=SELF), Rules(ruleset=BUDGET, trials=2)])
def test_trials_are_counted_as_they_are_drawn(rules: Rules) -> None:
    listed = Contestant("listed", "sgd", points=({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}))
    everybody = [named("adamw"), listed, Contestant("fixed", "sgd", {"lr": 0.1})]
    made = trials([Entry("rosenbrock", load("rosenbrock"))], everybody, rules)
    for contestant in everybody:
        drawn = [t for t in made if t.contestant == contestant.name and t.study == 0]
        assert trials_in_study(contestant, rules) == len(drawn)


@pytest.mark.parametrize("switch", [0.0, 0.03, 2.5])
@pytest.mark.parametrize("seconds", [0.001, 1.0, 12.34, 5000.0])
def test_no_further_step_fits_into_the_seconds_that_there_are(seconds: float, switch: float) -> None:
    clock = StepClock(Rules(), {("w", "c"): Calibrated(0.1, 0.1, 0.1, switch, 0, 0, None)}, {"w": 7})
    steps = clock.steps_within("w", "c", seconds)
    assert steps == 1 or clock.seconds("w", "c", steps) <= seconds * (1 + 1e-6)
    assert clock.seconds("w", "c", steps + 1) > seconds
    assert clock.steps_within("w", "c", clock.seconds("w", "c", 25)) == 25


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
    modelled = memory_of(fallline.create("lion", entry.workload.new_model(0))).optimizer
    assert found.by_workload["tiny"].state_bytes == {"adamw": 1, "lion": modelled}
    # 30 trials of two hours, two at a time; lion's steps are still to be measured.
    assert math.isclose(found.hours, 30.0, rel_tol=0.2) and found.calibration_seconds > 0
    text = " ".join(found.lines())
    assert "to measure steps" in text and "take at most 30." in text


def test_a_plan_for_a_file_of_another_race_says_what_the_race_would_say(tmp_path: Path) -> None:
    spec = str(write_workload(tmp_path))
    entry, path = Entry(spec, load(spec)), tmp_path / "r.sqlite"
    with Results(path) as results:
        results.begin([entry], [named("adamw")], RULES)
        results.add_trials(trials([entry], [named("adamw")], RULES))
        results.start(1, 120)
    with pytest.raises(StoreError, match="holds adamw too"):
        estimate([entry], [named("lion")], RULES, 2, path)


def stored(folder: Path, rules: Rules, **workload: float | None) -> tuple[Entry, Path]:
    """A race of adamw, a second per step, and lion, half of one."""
    spec = str(write_workload(folder, **workload))  # type: ignore[arg-type]
    entry, path = Entry(spec, load(spec)), folder / "r.sqlite"
    with Results(path) as results:
        results.begin([entry], [named("adamw"), named("lion")], rules)
        costs = {"adamw": Calibrated(1.0, 1.0, 1.0, 0.0, 1, 1, 1), "lion": Calibrated(0.5, 0.5, 0.5, 0.0, 1, 1, 1)}
        results.set_calibration("tiny", costs, {}, {})
    return entry, path


@pytest.mark.parametrize(("seconds", "each"), [(3600.0, 3600.0), (None, 120.0)])
def test_a_plan_of_equal_times_counts_everybodys_seconds(tmp_path: Path, seconds: float | None, each: float) -> None:
    rules = Rules(ruleset=BUDGET, trials=1, studies=2, seconds=seconds)
    entry, path = stored(tmp_path, rules)
    found = estimate([entry], [named("adamw"), named("lion")], rules, 1, path)
    assert found.training_hours == pytest.approx(4 * each / 3600)
    evaluations = found.evaluation_hours * 3600 / found.by_workload["tiny"].evaluation_seconds
    assert evaluations == pytest.approx(2 * (each / 10 + 2 * each / 10)), "lion takes twice the steps"
    assert "end sooner" not in " ".join(found.lines()), "no trial does"


def test_a_plan_does_not_set_a_target_that_is_set(tmp_path: Path) -> None:
    rules = Rules(ruleset=SELF, studies=2)
    entry, path = stored(tmp_path, rules, target=None)
    contestants = [named("adamw"), named("lion")]
    assert estimate([entry], contestants, rules, 1, path).trials == 4 + 3
    with Results(path) as results:
        results.set_workload("tiny", target=1.0, target_from="the median of 3 runs of adamw")
    assert estimate([entry], contestants, rules, 1, path).trials == 4


def test_a_plan_says_what_the_race_would_leave_out(tmp_path: Path) -> None:
    specs = [str(write_workload(tmp_path)), str(write_workload(tmp_path, name="easy", target=1e9))]
    entries = [Entry(spec, load(spec)) for spec in specs]
    found = estimate(entries, [named("adamw")], RULES, 1, tmp_path / "r.sqlite")
    assert found.trials == 30 and list(found.by_workload) == ["tiny"]
    (problem,) = found.left_out
    assert "easy: the target mse 1e+09 is already met before the first step" in problem
    assert f"Left out: {problem}" in found.lines()
    with pytest.raises(RaceError, match="already met before the first step"):
        estimate(entries[1:], [named("adamw")], RULES, 1, tmp_path / "r.sqlite")


def test_a_short_list_is_planned_at_once_however_many_trials_are_allowed(tmp_path: Path) -> None:
    spec = str(write_workload(tmp_path))
    rules = Rules(trials=10**15, studies=2)
    planned = trials([Entry(spec, load(spec))], [named("algoperf_amos")], rules)
    assert len(planned) == 2 * len(named("algoperf_amos").points)
