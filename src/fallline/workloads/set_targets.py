"""Sets a workload's target by AlgoPerf's procedure in miniature: ``python -m fallline.workloads.set_targets NAME …``

Four reference methods (AdamW, NAdamW, SGD with Nesterov's and with heavy-ball momentum), each tried at quasirandom
points of its search space in two thirds of the budget; the best setting of all is repeated with new seeds; the target
is the median of the repeats' best validation values.  AdamW at its best setting then runs the whole budget, which shows
when a baseline reaches the target.  Every finished run is stored at once; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

import fallline
from fallline.measure import machine
from fallline.schedules import WarmupCosine
from fallline.workloads import targets
from fallline.workloads.fashion_mnist import cache_folder
from fallline.workloads.loading import load
from fallline.workloads.seeding import mixed
from fallline.workloads.workload import Workload

ADAPTIVE = {"lr": (1e-3, 2e-2), "one_minus_beta1": (0.05, 0.2), "weight_decay": (1e-3, 1e-1)}
MOMENTUM = {"lr": (2e-2, 1.0), "one_minus_momentum": (0.03, 0.2), "weight_decay": (1e-6, 1e-3)}
METHODS: dict[str, dict[str, tuple[float, float]]] = {
    "adamw": ADAPTIVE,
    "nadamw": ADAPTIVE,
    "nesterov": MOMENTUM,
    "heavy_ball": MOMENTUM,
}
# Learning rates of networks do not fit a quadratic: factors for adaptive and for momentum methods.
LR_SCALE = {"quadratic_deep": (10.0, 0.1)}
BASELINE = "adamw"
WARMUP = 0.05
FIRST_REPEAT = 100
"""Seeds of the repeats start here; trials use seed 0."""


class Run(NamedTuple):
    kind: str  # trial, repeat, baseline
    method: str
    setting: dict[str, float]
    seed: int
    horizon: int


def points(method: str, count: int, workload: str = "") -> list[dict[str, float]]:
    """Settings from a scrambled Sobol' sequence, logarithmic in every dimension; more trials add to fewer."""
    space = dict(METHODS[method])
    scale = LR_SCALE.get(workload, (1.0, 1.0))[METHODS[method] is MOMENTUM]
    space["lr"] = (space["lr"][0] * scale, space["lr"][1] * scale)
    drawn = torch.quasirandom.SobolEngine(len(space), scramble=True, seed=mixed(0, method) % 2**31).draw(count)
    return [
        {
            name: float(f"{low * math.exp(u * math.log(high / low)):.4g}")
            for u, (name, (low, high)) in zip(row, space.items(), strict=True)
        }
        for row in drawn.tolist()
    ]


def optimizer(method: str, model: torch.nn.Module, setting: dict[str, float]) -> torch.optim.Optimizer:
    lr, weight_decay = setting["lr"], setting["weight_decay"]
    if method in ("adamw", "nadamw"):
        betas = (1 - setting["one_minus_beta1"], 0.999)
        return fallline.create(method, model, lr=lr, betas=betas, weight_decay=weight_decay)
    momentum = 1 - setting["one_minus_momentum"]
    nesterov = method == "nesterov"
    return fallline.create("sgd", model, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)


def target_horizon(workload: Workload) -> int:
    """Two thirds of the budget, at an evaluation."""
    assert workload.eval_every is not None
    return max(1, workload.max_steps * 2 // 3 // workload.eval_every) * workload.eval_every


def train(workload: Workload, run: Run) -> list[tuple[int, float]]:
    """(steps, value) at each evaluation; ends early where the loss is no longer finite."""
    model = workload.new_model(run.seed)
    method = optimizer(run.method, model, run.setting)
    schedule = WarmupCosine(method, total_steps=run.horizon, warmup_steps=max(1, round(WARMUP * run.horizon)))
    values = []
    for step in range(run.horizon):
        loss = workload.training_loss(model, step, run.seed)
        if not math.isfinite(loss.item()):
            break
        loss.backward()
        method.step()
        method.zero_grad()
        schedule.step()
        if step + 1 in workload.evaluation_steps():
            values.append((step + 1, round(workload.validate(model), 7)))
    return values


def best(workload: Workload, values: list[tuple[int, float]]) -> float:
    found = math.nan
    for _, value in values:
        if workload.is_better(value, found):
            found = value
    return found


class Store:
    """Finished runs, one line of JSON each."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a run was killed while it wrote
            path.write_text(whole, encoding="utf-8")
        self.rows = {row["key"]: row["values"] for row in map(json.loads, whole.splitlines())}

    def values(self, workload: Workload, run: Run) -> list[tuple[int, float]]:
        key = json.dumps([workload.data_name, workload.max_steps, workload.eval_every, *run], sort_keys=True)
        if key not in self.rows:
            started = time.perf_counter()
            values = train(workload, run)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "values": values}) + "\n")
            self.rows[key] = values
            seconds = time.perf_counter() - started
            shown = " ".join(f"{name}={value:g}" for name, value in run.setting.items())
            value = best(workload, values)
            print(f"  {run.kind} {run.method} {shown} seed {run.seed}: {value:g} ({seconds:.0f} s)", flush=True)
        return [(int(steps), float(value)) for steps, value in self.rows[key]]


def tried_points(workload: Workload, store: Store, trials: int) -> list[tuple[Run, float]]:
    """Every trial and its best value."""
    horizon = target_horizon(workload)
    runs = [Run("trial", method, s, 0, horizon) for method in METHODS for s in points(method, trials, workload.name)]
    return [(run, best(workload, store.values(workload, run))) for run in runs]


def set_target(
    workload: Workload,
    store: Store,
    trials: int,
    repeats: int,
    like: dict[str, Any] | None = None,
    with_baseline: bool = True,
) -> dict[str, Any]:
    """``like``, the record of another workload: no trials, its best setting is taken."""
    tried = tried_points(workload, store, trials) if like is None else []
    if like is None:
        chosen = _best_of(workload, tried)
    else:
        chosen = Run("trial", like["best_method"], like["best_setting"], 0, target_horizon(workload))
    repeated = [
        best(workload, store.values(workload, chosen._replace(kind="repeat", seed=FIRST_REPEAT + number)))
        for number in range(repeats)
    ]
    target = statistics.median(repeated)
    baseline = None
    if with_baseline:
        run, _ = _best_by_method(workload, tried).get(BASELINE, (chosen, math.nan))
        baseline = baseline_run(workload.replace(target=target), store, run)
    return {
        "target": target,
        "metric": workload.metric,
        "direction": workload.direction,
        "max_steps": workload.max_steps,
        "horizon": target_horizon(workload),
        "date": datetime.date.today().isoformat(),
        "machine": machine.cpu_model(),
        "torch": torch.__version__,
        "trials_per_method": trials if like is None else 0,
        "best_method": chosen.method,
        "best_setting": chosen.setting,
        "repeats": repeated,
        "by_method": {
            method: {"setting": run.setting, "value": None if math.isnan(value) else value}
            for method, (run, value) in _best_by_method(workload, tried).items()
        },
        "baseline": baseline,
    }


def baseline_run(workload: Workload, store: Store, run: Run) -> dict[str, Any]:
    """When a run with the whole budget as its horizon reaches the target."""
    curve = store.values(workload, run._replace(kind="baseline", seed=FIRST_REPEAT, horizon=workload.max_steps))
    reached = next((steps for steps, value in curve if workload.reached(value)), None)
    return {"method": run.method, "setting": run.setting, "steps_to_target": reached}


def _best_by_method(workload: Workload, tried: list[tuple[Run, float]]) -> dict[str, tuple[Run, float]]:
    found: dict[str, tuple[Run, float]] = {}
    for run, value in tried:
        if run.method not in found or workload.is_better(value, found[run.method][1]):
            found[run.method] = run, value
    return found


def _best_of(workload: Workload, tried: list[tuple[Run, float]]) -> Run:
    chosen, value = tried[0]
    for run, other in tried[1:]:
        if workload.is_better(other, value):
            chosen, value = run, other
    return chosen


def step_seconds(workload: Workload, steps: int = 40) -> float:
    """The median time of a training step with AdamW on one thread."""
    model = workload.new_model(0)
    method = fallline.create("adamw", model, lr=1e-3)
    times = []
    for step in range(steps + 5):
        started = time.perf_counter()
        workload.training_loss(model, step, 0).backward()
        method.step()
        method.zero_grad()
        times.append(time.perf_counter() - started)
    return statistics.median(times[5:])


def write(name: str, data_family: str, changes: dict[str, Any]) -> None:
    """Into the file of records, which another process may be writing too."""
    with targets.FILE.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        everything = json.loads(file.read() or "{}")
        known = everything.setdefault(name, {}).setdefault(data_family, {})
        known.update(changes)
        known["max_seconds"] = round(known.get("step_ms", 0) * known.get("max_steps", 0) / 1e3, 2) or None
        file.truncate(0)
        file.write(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fallline.workloads.set_targets", description=__doc__)
    parser.add_argument("names", nargs="+", help="workloads")
    parser.add_argument("--trials", type=int, default=10, help="points per method; AlgoPerf's are 200")
    parser.add_argument("--repeats", type=int, default=5, help="of the best setting; AlgoPerf's are 20")
    parser.add_argument("--like", help="no trials: take the best setting of this workload, say a variant's base")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the baseline with the whole budget")
    parser.add_argument("--time", action="store_true", help="measure step times only; on a quiet machine")
    parser.add_argument("--store", type=Path, default=cache_folder().parent.parent / "targets", help="folder of runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        workload = load(name)
        family = targets.data_family(workload.data_name)
        if options.time:
            changes = {"step_ms": round(1e3 * step_seconds(workload), 3), "max_steps": workload.max_steps}
        else:
            store = Store(options.store / f"{workload.name}.jsonl")
            base = load(options.like) if options.like else None
            like = targets.record(base.name, targets.data_family(base.data_name)) if base else None
            changes = set_target(
                workload, store, options.trials, options.repeats, like, with_baseline=not options.no_baseline
            )
            changes["settings_of"] = options.like
        write(workload.name, family, changes)
        print(f"{workload.name} on {family}: {json.dumps(changes)}", flush=True)


if __name__ == "__main__":
    main()
