"""One trial: trains, evaluates at fixed steps off the clock, and can go on from its last checkpoint.

A generator: it yields what happened and is sent "go on" or "stop", so that the same code runs in a local process and on
a Ray cluster, and nothing goes on before what happened is safe.
"""

from __future__ import annotations

import cmath
import contextlib
import dataclasses
import json
import math
import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import torch

from fallline.measure.clock import Wait, nothing_to_wait_for, wait_for
from fallline.race.building import Built, build
from fallline.race.contestants import Contestant, plain
from fallline.workloads import Workload

GO_ON, STOP = "go on", "stop"

REACHED = "reached"
OVER_BUDGET = "over budget"
CENSORED = "censored"
DIVERGED = "diverged"
OUT_OF_MEMORY = "out of memory"
CRASHED = "crashed"
FAILED = "failed"
ENDED = "ended"
"""An equal-budget trial that used its budget; whether it reached the target on the way stands beside."""

SAVE_EVERY = 30.0
"""Seconds between checkpoints, and before the first.  Saving a small model takes 12 ms; with an interruption in ten
hours, writing and repeating together cost least when they come this far apart (Young's formula)."""
SAVING_SHARE = 1000
"""Checkpoints lie at least so many times their own duration apart: at most 0.1 % of the time goes into them."""


@dataclasses.dataclass(frozen=True)
class Assignment:
    """Everything a worker needs for a trial."""

    trial: int
    contestant: Contestant
    point: Mapping[str, Any]
    seed: int
    max_steps: int
    """Also the length that schedules count on."""
    stop_at_target: bool
    checkpoint: str | None
    recorded: int = 0
    """The last step whose evaluation is in the results file."""
    save_every: float | None = None
    """Seconds between checkpoints; 0 saves at every evaluation, None as often as is cheap."""


Events = Generator[dict[str, Any], str | None, None]


def train(workload: Workload, task: Assignment) -> Events:
    """Yields ``evaluation`` events, at last one ``end`` event; replies come from ``send``."""
    model = workload.new_model(task.seed)
    built = build(task.contestant, task.point, model, task.max_steps)
    watch = Stopwatch(wait_for_model(model))
    step = 0
    due = _evaluation_steps(workload, task)
    identity = _identity(workload, task)
    saved = _load(task.checkpoint, identity)
    if saved is not None and saved["step"] <= next((s for s in due if s > task.recorded), task.max_steps):
        model.load_state_dict(saved["model"])
        built.restore(saved["optimizer"], saved["attributes"])
        step, watch.training, watch.evaluation = saved["step"], saved["training"], saved["evaluation"]
        last = saved["last"]
        # Stopped between saving and writing the row: the row is given once more.
        if last["step"] > task.recorded and (yield last) == STOP:
            yield _end(CENSORED, step, watch)
            return
        if (ending := _ending(workload, task, last, model)) is not None:
            yield _end(ending, step, watch)
            return
    saver = Saver(task, identity)
    while step < task.max_steps:
        until = next((s for s in due if s > step), task.max_steps)
        watch.start()
        loss = advance(workload, model, built, task.seed, step, until)
        built.to_evaluate()
        watch.stop_training()
        step = until
        value = workload.validate(model)
        watch.stop_evaluation()
        built.to_train()
        watch.stop_training()
        event = {
            "event": "evaluation",
            "step": step,
            "value": value if math.isfinite(value) else None,
            "loss": loss if math.isfinite(loss) else None,
            "training": watch.training,
            "evaluation": watch.evaluation,
        }
        ending = _ending(workload, task, event, model)
        if ending is None and (unsaved := saver.save(model, built, event)) is not None:
            event["unsaved"] = unsaved
        if (yield event) == STOP and ending is None:
            ending = CENSORED
        if ending is not None:
            yield _end(ending, step, watch)
            return
    yield _end(ENDED if not task.stop_at_target else OVER_BUDGET, step, watch)


def advance(workload: Workload, model: torch.nn.Module, built: Built, seed: int, step: int, until: int) -> float:
    """Takes the steps [step, until); returns the loss before the last one."""
    loss = None
    for index in range(step, until):
        built.set_rates(index)
        built.optimizer.zero_grad()
        loss = workload.training_loss(model, index, seed)
        loss.backward()
        built.optimizer.step()
    return math.nan if loss is None else float(loss.detach())


def _evaluation_steps(workload: Workload, task: Assignment) -> list[int]:
    """The same for all seeds and contestants; with an equal budget also its last step, which is each one's own."""
    assert workload.eval_every is not None
    steps = list(range(workload.eval_every, task.max_steps + 1, workload.eval_every))
    if not task.stop_at_target and steps[-1:] != [task.max_steps]:
        steps.append(task.max_steps)
    return steps


def _ending(workload: Workload, task: Assignment, event: Mapping[str, Any], model: torch.nn.Module) -> str | None:
    value = event["value"]
    if task.stop_at_target and value is not None and workload.reached(value):
        return REACHED
    return None if _is_finite(model) else DIVERGED


def _is_finite(model: torch.nn.Module) -> bool:
    """A finite sum has finite terms, and is a third cheaper than the largest magnitude; large terms may overflow it."""
    values = [p.detach() for p in model.parameters() if p.numel()]
    if all(cmath.isfinite(value.sum().item()) for value in values):
        return True
    return all(math.isfinite(value) for value in torch._foreach_norm(values, math.inf))


def _end(status: str, step: int, watch: Stopwatch) -> dict[str, Any]:
    return {"event": "end", "status": status, "step": step, "training": watch.training, "evaluation": watch.evaluation}


def wait_for_model(model: torch.nn.Module) -> Wait:
    """What ends when the device of the model's first parameter has done all its work; on a CPU, nothing to wait for.

    Tested with a stand-in for the device; it has not been run on a GPU.
    """
    first = next(model.parameters(), None)
    return nothing_to_wait_for if first is None else wait_for(str(first.device))


class Stopwatch:
    """Seconds of training and of evaluation, apart; both only grow, also over interruptions.

    Every reading waits for the device, so that its work is counted where it was asked for.
    """

    def __init__(self, wait: Wait = nothing_to_wait_for) -> None:
        self.training = 0.0
        self.evaluation = 0.0
        self._since = 0.0
        self._wait = wait

    def start(self) -> None:
        self._lap()

    def stop_training(self) -> None:
        self.training += self._lap()

    def stop_evaluation(self) -> None:
        self.evaluation += self._lap()

    def _lap(self) -> float:
        """Seconds since the last reading."""
        self._wait()
        before, self._since = self._since, time.perf_counter()
        return self._since - before


# ------------------------------------------------------------------ checkpoints


def _identity(workload: Workload, task: Assignment) -> str:
    """What a checkpoint is of: one of another race may lie where this one's is looked for."""
    return json.dumps(
        {
            "workload": [workload.name, workload.data_name, workload.eval_every],
            "contestant": [task.contestant.name, task.contestant.definition()],
            "point": plain(task.point),
            "seed": task.seed,
            "max_steps": task.max_steps,
        },
        sort_keys=True,
    )


class Saver:
    """Saves a trial, as often as was asked for or as is cheap."""

    def __init__(self, task: Assignment, identity: str):
        self._path = None if task.checkpoint is None else Path(task.checkpoint)
        self._identity = identity
        self._asked = task.save_every
        self._last = time.perf_counter()
        self._took = 0.0

    def save(self, model: torch.nn.Module, built: Built, event: Mapping[str, Any]) -> str | None:
        """Why it could not, if it could not."""
        start = time.perf_counter()
        apart = max(SAVE_EVERY, SAVING_SHARE * self._took) if self._asked is None else self._asked
        if self._path is None or start - self._last < apart:
            return None
        content = {
            "of": self._identity,
            "model": model.state_dict(),
            "optimizer": built.optimizer.state_dict(),
            "attributes": built.attributes,
            "step": event["step"],
            "training": event["training"],
            "evaluation": event["evaluation"],
            "last": dict(event),
        }
        reason = None
        # Whole or not at all: a file that is being written has another name.
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            torch.save(content, partial)
            os.replace(partial, self._path)
        except Exception as error:
            # A full disk, or a state of somebody's optimizer that cannot be saved: the trial goes on, from the
            # checkpoint before if it is interrupted, or anew.
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        self._last = time.perf_counter()
        self._took = self._last - start
        return reason


def _load(path: str | None, identity: str) -> dict[str, Any] | None:
    """A checkpoint, or None: without one, or with a damaged one, a trial begins anew and gives the same curve.

    So it does with one of another trial, and with one that is further than the results file, which may have lost rows
    with the power.
    """
    if path is None or not Path(path).is_file():
        return None
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True)
        return content if content["of"] == identity else None
    except Exception:
        return None
