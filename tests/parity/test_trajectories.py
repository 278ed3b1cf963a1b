"""Every optimizer in every lowering follows its float64 oracle: parameters and states, 50 steps.

The cases are a covering array: every pair of an optimizer's options, lowering, dtype, layout, size, grouping,
threads and events of a training run meets in one of them.
"""

from typing import Any

import pytest
import torch

from tests.covering import covering_array
from tests.native import needs_native
from tests.parity.trajectories import LAYOUTS, SHAPES, VARIANTS, Trajectory

STEPS = 50

AXES: dict[str, list[Any]] = {
    "variant": list(VARIANTS),
    "lowering": ["auto", "eager", "foreach", "native", "native each"],
    "layout": LAYOUTS,
    "size": list(SHAPES),
    "dtype": ["float32", "float64", "bfloat16", "float16", "bfloat16 master"],
    "gradient": ["same", "float32", "bfloat16", "float64"],
    "grouping": ["one", "two", "each"],
    "events": ["none", "missing gradients", "lr number", "lr tensor", "checkpoint", "maximize", "everything"],
    "threads": [1, 2],
}


def impossible(row: dict[str, Any]) -> bool:
    if row["dtype"] == "float64" and row["lowering"].startswith("native"):
        return True
    # 0-d has one element; what has no two axes cannot be transposed.
    return bool(row["layout"] == "0-d" and row["size"] != 1)


CASES = covering_array(AXES, forbid=impossible, seed=1)


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(str(v).replace(" ", "_") for v in c.values()))
def test_trajectories_agree_with_the_oracle(case: dict[str, Any]) -> None:
    if case["lowering"].startswith("native"):
        needs_native()
    dtype = getattr(torch, case["dtype"].split()[0])
    events = case["events"]
    everything = events == "everything"
    run = Trajectory(
        case["variant"],
        case["lowering"],
        dtype,
        dtype if case["gradient"] == "same" else getattr(torch, case["gradient"]),
        case["layout"],
        case["size"],
        case["grouping"],
        missing=everything or events == "missing gradients",
        lr_changes="tensor" if everything else events.removeprefix("lr ") if events.startswith("lr ") else "no",
        maximize=everything or events == "maximize",
        master_weights="master" in case["dtype"],
    )
    before = torch.get_num_threads()
    # More threads for torch's own operations make the test slower, but not different.
    torch.set_num_threads(case["threads"] if case["lowering"].startswith("native") else 1)
    try:
        for step in range(1, STEPS + 1):
            run.step()
            if case["size"] < 10000 or step < 4 or step % 7 in (0, 1):
                run.check()
            run.keep_stored()
            if step == 2 and case["layout"] == "states transposed":
                run.transpose_states()
            if step == 25 and (everything or events == "checkpoint"):
                run.save_and_load()
    finally:
        torch.set_num_threads(before)
    if case["lowering"] != "auto":
        assert f": {case['lowering']} (asked for)" in run.optimizer.explain()


def test_the_cases_cover_every_option_of_every_optimizer() -> None:
    import fallline

    used: dict[str, dict[str, set[str]]] = {}
    for class_name, _, options in VARIANTS.values():
        for name, value in options.items():
            used.setdefault(class_name, {}).setdefault(name, set()).add(repr(value))
    for class_name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Lion"):
        defaults = getattr(fallline, class_name).description.defaults
        for name, default in defaults.items():
            if name in ("lr", "variant"):
                continue  # changed in the middle of runs; other AMSGrads are run in tests/optimizers
            values = used[class_name].get(name, set()) - {repr(default)}
            assert values, f"{class_name} is never run with another {name}"
