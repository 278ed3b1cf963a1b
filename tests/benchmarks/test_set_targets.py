"""How targets are set."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

from benchmarks.reference_methods import METHODS, points
from benchmarks.reference_runs import Run, RunInTraining, Store
from benchmarks.set_targets import RECORDS, RUNGS, result, set_target, target_horizon, write
from fallline.workloads import load, targets
from fallline.workloads.workload import Workload


def test_points_are_inside_their_space_and_extend() -> None:
    for method, space in METHODS.items():
        some = points(method, 8)
        assert points(method, 3) == some[:3]
        assert all(low * 0.999 <= point[name] <= high * 1.001 for point in some for name, (low, high) in space.items())
        assert len({point["lr"] for point in some}) == 8


@pytest.fixture
def short() -> Workload:
    return load("quadratic_deep").replace(max_steps=42, eval_every=7, target=None)


def test_the_target_is_the_median_of_the_best_settings_repeats(short: Workload, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.jsonl")
    record = set_target(short, store, trials=2, repeats=3)
    assert target_horizon(short) == record["horizon"] == 28
    assert record["target"] == statistics.median(record["repeats"])
    tried = {method: found["value"] for method, found in record["by_method"].items()}
    assert set(tried) == set(METHODS)
    assert tried[record["best_method"]] == min(value for value in tried.values() if value is not None)
    chosen = Run("repeat", record["best_method"], record["best_setting"], 101, 28)
    assert record["repeats"][1] == result(short, Store(tmp_path / "again.jsonl"), chosen)


def test_trials_behind_others_of_their_method_are_given_up(short: Workload, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.jsonl")
    set_target(short.replace(max_steps=84), store, trials=10, repeats=1)
    ends = [(stretch[4], stretch[-2]) for stretch in map(json.loads, store.stretches) if stretch[3] == "trial"]
    assert [share for share, _ in RUNGS] == [0.15, 0.4]
    for method in METHODS:
        assert [sum(end == (method, steps) for end in ends) for steps in (7, 21, 56)] == [10, 3, 1]


def test_a_run_taken_further_is_the_run_taken_at_once(short: Workload) -> None:
    run = Run("trial", "nadamw", points("nadamw", 1, short.name)[0], 5, 28)
    whole = RunInTraining(short, run).until(28, evaluate_after=0)
    parts = RunInTraining(short, run)
    first, second = parts.until(14, evaluate_after=0), parts.until(28, evaluate_after=0)
    assert first.values + second.values == whole.values and second.loss == whole.loss
    assert RunInTraining(short, run).until(28, evaluate_after=14).values == second.values


def test_a_run_that_diverges_ends_and_is_never_chosen(short: Workload, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.jsonl")
    run = Run("trial", "heavy_ball", {"lr": 1e30, "one_minus_momentum": 0.1, "weight_decay": 0.0}, 0, 28)
    assert store.stretch(short, run, 28, evaluate_after=14) == (math.inf, [])
    assert Store(store.path).stretch(short, run, 28, evaluate_after=14).loss == math.inf
    assert math.isnan(result(short, store, run))


def test_it_goes_on_where_it_stopped(short: Workload, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    whole = set_target(short, Store(path), trials=4, repeats=2)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:5]) + "\n")
    assert set_target(short, Store(path), trials=4, repeats=2) == whole
    assert path.read_text().splitlines() == lines
    # A line cut off by a crash counts as not run.
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])
    assert set_target(short, Store(path), trials=4, repeats=2) == whole


def test_records_are_added_to(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    write("quadratic_deep", "one", {"max_steps": 10, "by_method": {}}, path)
    write("quadratic_deep", "one", {"step_ms": 200.0}, path)
    write("quadratic_deep", "two", {"max_steps": 10, "by_method": {"adamw": {}}}, path)
    known = json.loads(path.read_text())["quadratic_deep"]
    assert known["one"] == {"max_steps": 10, "step_ms": 200.0, "max_seconds": 2.0, "by_method": {}}
    assert known["two"]["by_method"] == {"adamw": {}}


def test_the_package_is_not_written_unless_asked_to() -> None:
    assert RECORDS.resolve() != targets.FILE.resolve()
