"""Training runs of the reference methods, stored as they go: one line of JSON for each stretch of a run.

A run is a function of its description, so one that was stopped is simply done again up to where it is needed.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fallline.schedules import WarmupCosine
from fallline.workloads.reference_methods import optimizer
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


class Training:
    """A run that can be taken further and further."""

    def __init__(self, workload: Workload, run: Run):
        self.workload, self.run = workload, run
        self.model = workload.new_model(run.seed)
        self.step = 0
        self.diverged = False
        self.begin()

    def begin(self) -> None:
        self.optimizer = optimizer(self.run.method, self.model, self.run.setting)
        warmup = max(1, round(WARMUP * self.run.horizon))
        self.schedule = WarmupCosine(self.optimizer, total_steps=self.run.horizon, warmup_steps=warmup)

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()

    def validate(self) -> float:
        return self.workload.validate(self.model)

    def until(self, steps: int, evaluate_after: int) -> Stretch:
        """Ends for good where the loss is no longer finite."""
        assert self.workload.eval_every is not None
        losses: deque[float] = deque(maxlen=self.workload.eval_every)
        values = []
        while self.step < steps and not self.diverged:
            loss = self.workload.training_loss(self.model, self.step, self.run.seed)
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                self.diverged = True
                break
            loss.backward()
            self.update()
            self.step += 1
            if self.step > evaluate_after and self.step in self.workload.evaluation_steps():
                values.append((self.step, round(self.validate(), 6)))
        return Stretch(math.inf if self.diverged else round(statistics.fmean(losses), 6), values)


class Store:
    """All runs of a workload, on disk; a run is trained only where nobody has trained it before."""

    def __init__(self, path: Path, training: type[Training] = Training):
        self.path, self.kind = path, training
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # a run was killed while it wrote
            path.write_text(whole, encoding="utf-8")
        self.stretches: dict[str, Stretch] = {}
        self.training: dict[str, Training] = {}
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
                self.training[name] = self.kind(workload, run)
            found = self.stretches[key] = self.training[name].until(until, evaluate_after)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"stretch": which, **found._asdict()}) + "\n")
            _report(workload, run, until, found, time.perf_counter() - started)
        return self.stretches[key]

    def let_go(self) -> None:
        """Of the models: nobody will take their runs further."""
        self.training.clear()


def _report(workload: Workload, run: Run, until: int, found: Stretch, seconds: float) -> None:
    setting = " ".join(f"{name}={value:.4g}" for name, value in run.setting.items())
    text = f"  {run.kind} {run.method} {setting} seed {run.seed}, {until} steps: loss {found.loss:g}"
    if found.values:
        text += f", {workload.metric} {best(workload, found.values):g}"
    print(f"{text} ({seconds:.0f} s)", flush=True)
