"""The recorded targets belong to the workloads there are."""

from __future__ import annotations

import json
import statistics

from fallline.workloads import BUILT_IN, load, targets


def test_every_workload_has_a_target_with_its_story() -> None:
    for name in BUILT_IN:
        workload = load(name)
        if name == "rosenbrock":  # chosen, not set
            assert workload.target == 0.01
            continue
        record = targets.record(name, targets.data_family(workload.data_name))
        assert record is not None, f"{name} has no target on {workload.data_name}"
        assert workload.target == record["target"], f"{name}: the target was set for another budget"
        assert record["target"] == statistics.median(record["repeats"])
        assert {"date", "machine", "trials_per_method", "best_method", "best_setting"} <= set(record)


def test_a_target_of_another_budget_is_not_used() -> None:
    workload = load("quadratic_deep")
    assert targets.with_target(workload.replace(target=None)).target == workload.target
    assert targets.with_target(workload.replace(target=None, max_steps=17)).target is None


def test_the_file_is_small_and_sorted() -> None:
    text = targets.FILE.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
    assert len(text) < 100_000
