"""Sets a workload's target by AlgoPerf's procedure in miniature: ``python -m benchmarks.set_targets NAME …``

Four reference methods, each tried at quasirandom points of its search space in two thirds of the budget; the best
setting of all is repeated with new seeds; the target is the median of the repeats' best validation values.  NAdamW,
AlgoPerf's baseline, then runs the whole budget at its best setting, which shows when a baseline reaches the target.
AlgoPerf ends every trial; here those that are behind others of their method are given up early (``RUNGS``).  Every run
is stored as it goes; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import fallline
from benchmarks.reference_methods import METHODS, points
from benchmarks.reference_runs import Run, Store, best
from fallline.measure import machine
from fallline.measure.clock import seconds_of
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads import targets
from fallline.workloads.loading import load
from fallline.workloads.workload import Workload

RUNGS = ((0.15, 0.3), (0.4, 0.1))
"""After this share of the horizon, this share of a method's trials goes on: those with the lowest training losses."""
BASELINE, BASELINES = "nadamw", 3
"""The method, and how often it runs."""
RECORDS = Path("build/targets.json")
"""Not the file that the package reads: changing targets is a decision, and an installed package is not written."""
FIRST_REPEAT = 100
"""Seeds of the repeats start here; trials use seed 0."""

Found = tuple[Run, float]
"""A run and its best value."""


def target_horizon(workload: Workload) -> int:
    """Two thirds of the budget, at an evaluation."""
    return _at_evaluation(workload, workload.max_steps * 2 / 3)


def _at_evaluation(workload: Workload, steps: float) -> int:
    assert workload.eval_every is not None
    return max(1, int(steps) // workload.eval_every) * workload.eval_every


def best_of_method(workload: Workload, store: Store, method: str, settings: Sequence[dict[str, float]]) -> Found:
    """The trials with the lowest losses on the way go on, the best value at the end counts."""
    horizon = target_horizon(workload)
    runs = [Run("trial", method, setting, 0, horizon) for setting in settings]
    for share, kept in RUNGS:
        until = _at_evaluation(workload, share * horizon)
        runs.sort(key=lambda run: store.stretch(workload, run, until, evaluate_after=horizon).loss)
        runs = runs[: max(1, math.ceil(kept * len(settings)))]
    found = [(run, result(workload, store, run)) for run in runs]
    store.let_go()
    return min(found, key=lambda pair: _order(workload, pair[1]))


def result(workload: Workload, store: Store, run: Run) -> float:
    """The best value of a whole run; before the last rung nothing is evaluated, as the best comes later."""
    last_rung = _at_evaluation(workload, RUNGS[-1][0] * run.horizon)
    return best(workload, store.stretch(workload, run, run.horizon, evaluate_after=last_rung).values)


def _order(workload: Workload, value: float) -> float:
    """The smaller, the better; NaN is the worst."""
    return math.inf if math.isnan(value) else value if workload.is_better(0.0, 1.0) else -value


def set_target(workload: Workload, store: Store, trials: int, repeats: int) -> dict[str, Any]:
    settings = {method: points(method, trials, workload.name) for method in METHODS}
    found = {method: best_of_method(workload, store, method, settings[method]) for method in settings}
    chosen, _ = min(found.values(), key=lambda pair: _order(workload, pair[1]))
    seeds = range(FIRST_REPEAT, FIRST_REPEAT + repeats)
    repeated = [result(workload, store, chosen._replace(kind="repeat", seed=seed)) for seed in seeds]
    target = statistics.median(repeated)
    return {
        "target": target,
        "metric": workload.metric,
        "direction": workload.direction,
        "max_steps": workload.max_steps,
        "horizon": target_horizon(workload),
        "date": datetime.date.today().isoformat(),
        "machine": machine.cpu_model(),
        "torch": torch.__version__,
        "trials_per_method": len(settings[BASELINE]),
        "best_method": chosen.method,
        "best_setting": chosen.setting,
        "repeats": repeated,
        "by_method": {
            method: {"setting": run.setting, "value": None if math.isnan(value) else value}
            for method, (run, value) in found.items()
        },
        "baseline": baseline(workload.replace(target=target), store, found[BASELINE][0]),
    }


def baseline(workload: Workload, store: Store, trial: Run) -> dict[str, Any]:
    """When runs with the whole budget as their horizon reach the target; None for those that do not."""
    reached: list[int | None] = []
    for seed in range(FIRST_REPEAT, FIRST_REPEAT + BASELINES):
        run = trial._replace(kind="baseline", seed=seed, horizon=workload.max_steps)
        curve = store.stretch(workload, run, run.horizon, evaluate_after=0).values
        reached.append(next((steps for steps, value in curve if workload.reached(value)), None))
    middle = statistics.median_low(math.inf if steps is None else steps for steps in reached)
    return {
        "method": trial.method,
        "setting": trial.setting,
        "steps_to_target": None if math.isinf(middle) else middle,
        "of_each": reached,
    }


def step_seconds(workload: Workload, steps: int = 40) -> float:
    """The median time of a training step with AdamW on one thread."""

    def prepare(model: torch.nn.Module) -> ScheduledOptimizer:
        return ScheduledOptimizer(fallline.create("adamw", model, lr=1e-3))

    loop = Training(workload, 0, prepare).loop
    times = [seconds_of(loop.step) for _ in range(steps + 5)]
    return statistics.median(times[5:])


def write(name: str, data_family: str, changes: Mapping[str, Any], path: Path) -> None:
    """Adds to the file of records, which another process may be writing too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        everything = json.loads(file.read() or "{}")
        known = everything.setdefault(name, {}).setdefault(data_family, {})
        known.update(changes)
        known["max_seconds"] = round(known.get("step_ms", 0) * known.get("max_steps", 0) / 1e3, 2) or None
        file.truncate(0)
        file.write(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.set_targets", description=__doc__)
    parser.add_argument("names", nargs="+", help="workloads")
    parser.add_argument("--trials", type=int, default=10, help="points per method; AlgoPerf's are 200")
    parser.add_argument("--repeats", type=int, default=5, help="of the best setting; AlgoPerf's are 20")
    parser.add_argument("--time", action="store_true", help="measure step times only; on a quiet machine")
    parser.add_argument("--store", type=Path, default=Path("target_runs"), help="folder that keeps the runs")
    parser.add_argument(
        "--records",
        type=Path,
        default=RECORDS,
        help=f"the file to write targets into; the package reads {targets.FILE}",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        workload = load(name)
        family = targets.data_family(workload.data_name)
        changes: dict[str, Any]
        if options.time:
            changes = {"step_ms": round(1e3 * step_seconds(workload), 3), "max_steps": workload.max_steps}
        else:
            store = Store(options.store / f"{workload.name}.jsonl")
            changes = set_target(workload, store, options.trials, options.repeats)
        write(workload.name, family, changes, options.records)
        print(f"{workload.name} on {family}: {json.dumps(changes)}", flush=True)


if __name__ == "__main__":
    main()
