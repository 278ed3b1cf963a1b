"""Finds fixed settings for the default race's contestants: ``python -m benchmarks.default_settings``

Each contestant is tried at the same number of quasirandom points of its documented space on the default race's
workload, with the whole budget.  Trials with high losses after 15 % and 40 % of the way are given up, as when targets
are set.  The trial that reaches the target soonest is the best; where none does, the one with the best value.  Its
setting, rounded, belongs into ``fallline.race.contestants.spaces``.  Goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import torch

from benchmarks.reference_runs import Curve, Run, Store, best
from fallline.race.contestants import named
from fallline.race.contestants.halton import value
from fallline.race.defaults import NAMES, WORKLOAD
from fallline.training.optimizer_factory import build
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.workloads import Workload, load

RUNGS = ((0.15, 4), (0.4, 2))
"""After this share of the budget, so many trials go on."""


def contestant_optimizer(run: Run, model: torch.nn.Module) -> ScheduledOptimizer:
    """A contestant's own optimizer and schedule."""
    return build(named(run.method), run.setting, model, run.horizon)


def rounded(setting: dict[str, Any]) -> dict[str, Any]:
    """Two digits are what ten trials can tell."""
    return {name: float(f"{x:.2g}") if isinstance(x, float) else x for name, x in setting.items()}


def points(name: str, trials: int) -> list[dict[str, Any]]:
    """By Sobol's sequence: ten points of a Halton sequence with large bases may all lie in one half of a range."""
    contestant = named(name)
    drawn = torch.quasirandom.SobolEngine(len(contestant.space), scramble=True, seed=1).draw(trials).tolist()
    return [
        rounded(
            {**contestant.settings, **{k: value(d, u) for (k, d), u in zip(contestant.space.items(), row, strict=True)}}
        )
        for row in drawn
    ]


def rank(workload: Workload, curve: Curve) -> tuple[float, float]:
    """Steps to the target, then the best value: the smaller, the better."""
    reached = next((steps for steps, value in curve if workload.reached(value)), math.inf)
    quality = best(workload, curve)
    return reached, math.inf if math.isnan(quality) else quality if workload.direction == "lower" else -quality


def search(workload: Workload, store: Store, name: str, trials: int) -> tuple[dict[str, Any], tuple[float, float]]:
    assert workload.eval_every is not None
    runs = [Run("default", name, point, 0, workload.max_steps) for point in points(name, trials)]
    for share, kept in RUNGS:
        until = int(share * workload.max_steps) // workload.eval_every * workload.eval_every
        runs.sort(key=lambda run: store.stretch(workload, run, until, evaluate_after=workload.max_steps).loss)
        runs = runs[:kept]
    found = []
    for run in runs:
        curve = store.stretch(workload, run, workload.max_steps, evaluate_after=until).values
        found.append((rank(workload, curve), run.setting))
    store.let_go()
    order, setting = min(found, key=lambda pair: pair[0])
    return setting, order


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.default_settings", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help="contestants; the default race's five if none")
    parser.add_argument("--trials", type=int, default=10, help="points per contestant")
    parser.add_argument("--store", type=Path, default=Path("benchmarks/target_runs/default_settings.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    workload = load(WORKLOAD)
    store = Store(options.store, contestant_optimizer)
    for name in options.names:
        setting, (steps, quality) = search(workload, store, name, options.trials)
        print(f"{name}: {setting}, target after {steps:g} steps, {workload.metric} {abs(quality):g}", flush=True)


if __name__ == "__main__":
    main()
