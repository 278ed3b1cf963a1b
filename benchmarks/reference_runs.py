"""Training runs of the reference methods, stored as they go: one line of JSON for each stretch of a run.

A run is a function of its description, so one that was stopped is simply done again up to where it is needed.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.reference_methods import optimizer
from fallline.schedules import warmup_cosine
from fallline.training.loop import Loop
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads.workload import Workload

WARMUP = 0.05

Curve = list[tuple[int, float]]
"""(steps, value) at each evaluation."""


class Run(NamedTuple):
    kind: str  # trial, repeat, baseline
    method: str
    setting: dict[str, Any]
    seed: int
    horizon: int
    """The length of its schedule."""


class Stretch(NamedTuple):
    """A part of a run."""

    loss: float
    """The mean training loss of its last steps, as many as lie between evaluations; infinite once it diverged."""
    values: Curve


def best(workload: Workload, curve: Sequence[tuple[int, float]]) -> float:
    found = math.nan
    for _, value in curve:
        if workload.is_better(value, found):
            found = value
    return found


def reference_optimizer(run: Run, model: torch.nn.Module) -> ScheduledOptimizer:
    """A reference method on warm-up and cosine."""
    warmup = max(1, round(WARMUP * run.horizon))
    rate = functools.partial(warmup_cosine, total_steps=run.horizon, warmup_steps=warmup)
    return ScheduledOptimizer.around(optimizer(run.method, model, run.setting), rate)


Prepare = Callable[[Run, torch.nn.Module], ScheduledOptimizer]


class RunInTraining:
    """A run that can be taken further and further."""

    def __init__(self, workload: Workload, run: Run, prepare: Prepare = reference_optimizer):
        self.workload = workload
        self.training = Training(workload, run.seed, lambda model: prepare(run, model))
        self.diverged = False

    def until(self, steps: int, evaluate_after: int) -> Stretch:
        """Ends for good where the loss is no longer finite."""
        assert self.workload.eval_every is not None
        loop = self.training.loop
        assert isinstance(loop, Loop)
        losses: deque[float] = deque(maxlen=self.workload.eval_every)
        values = []
        while loop.done < steps and not self.diverged:
            losses.append(loop.gradients().item())
            if not math.isfinite(losses[-1]):
                self.diverged = True
                break
            loop.update()
            if loop.done > evaluate_after and loop.done in self.workload.evaluation_steps():
                values.append((loop.done, round(self.training.evaluate(), 6)))
        return Stretch(math.inf if self.diverged else round(statistics.fmean(losses), 6), values)


class Store:
    """All runs of a workload, on disk; a run is trained only where nobody has trained it before."""

    def __init__(self, path: Path, prepare: Prepare = reference_optimizer):
        self.path, self.prepare = path, prepare
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a run was killed while it wrote
            path.write_text(whole, encoding="utf-8")
        self.stretches: dict[str, Stretch] = {}
        self.training: dict[str, RunInTraining] = {}
        for row in map(json.loads, whole.splitlines()):
            values = [(int(step), float(value)) for step, value in row["values"]]
            self.stretches[json.dumps(row["stretch"], sort_keys=True)] = Stretch(row["loss"], values)

    def stretch(self, workload: Workload, run: Run, until: int, evaluate_after: int) -> Stretch:
        """The run up to ``until`` steps, from where it was taken before; evaluated after ``evaluate_after`` of them."""
        which = [workload.data_name, workload.max_steps, workload.eval_every, *run, until, evaluate_after]
        key = json.dumps(which, sort_keys=True)
        if key not in self.stretches:
            started = time.perf_counter()
            name = json.dumps(run, sort_keys=True)
            if name not in self.training:
                self.training[name] = RunInTraining(workload, run, self.prepare)
            found = self.stretches[key] = self.training[name].until(until, evaluate_after)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"stretch": which, **found._asdict()}) + "\n")
            _report(workload, run, until, found, time.perf_counter() - started)
        return self.stretches[key]

    def let_go(self) -> None:
        """Forgets the models: nobody will take their runs further."""
        self.training.clear()


def _report(workload: Workload, run: Run, until: int, found: Stretch, seconds: float) -> None:
    setting = " ".join(f"{name}={value:.4g}" for name, value in run.setting.items())
    text = f"  {run.kind} {run.method} {setting} seed {run.seed}, {until} steps: loss {found.loss:g}"
    if found.values:
        text += f", {workload.metric} {best(workload, found.values):g}"
    print(f"{text} ({seconds:.0f} s)", flush=True)
