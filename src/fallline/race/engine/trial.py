"""One trial: trains, evaluates at fixed steps off the clock, and can go on from its last checkpoint.

A generator: it yields events and is sent replies, so that the same code runs in a local process and on a Ray cluster,
and nothing goes on before what happened is safe.
"""

from __future__ import annotations

import cmath
import dataclasses
import json
import math
from collections.abc import Generator, Mapping
from typing import Any

import torch

from fallline.race.contestants.contestant import plain
from fallline.race.engine.messages import (
    CENSORED,
    DIVERGED,
    ENDED,
    OVER_BUDGET,
    REACHED,
    Assignment,
    End,
    Evaluation,
    Event,
    Notice,
    Reply,
)
from fallline.training import checkpoints
from fallline.training.optimizer_factory import build
from fallline.training.phases import EVALUATION, TRAINING
from fallline.training.training import Training
from fallline.workloads.workload import Workload

Events = Generator[Event, Reply, None]


def run_trial(workload: Workload, task: Assignment) -> Events:
    """Yields an :class:`Evaluation` after every stretch of steps, at last one :class:`End`."""
    training = Training(workload, task.seed, lambda model: build(task.contestant, task.point, model, task.max_steps))
    due = _evaluation_steps(workload, task)
    identity = _identity(workload, task)
    saved = checkpoints.read(task.checkpoint, identity)
    # One that is further than the results file is not taken: rows were lost with the power.
    if saved is not None and saved["step"] <= next((s for s in due if s > task.recorded), task.max_steps):
        end = yield from _go_on(training, task, saved)
        if end is not None:
            yield end
            return
    saver = checkpoints.Saver(task.checkpoint, identity, task.save_every)
    while training.done < task.max_steps:
        event = _evaluated(training, next((s for s in due if s > training.done), task.max_steps))
        status = _status(training, task, event.value)
        if status is None and (unsaved := _save(saver, training, event)) is not None:
            event = dataclasses.replace(event, unsaved=unsaved)
        reply = yield event
        if status is None and not reply.go_on:
            status = CENSORED
        if status is not None:
            yield _end(training, status)
            return
    yield _end(training, OVER_BUDGET if task.stop_at_target else ENDED)


def _go_on(training: Training, task: Assignment, saved: Mapping[str, Any]) -> Generator[Event, Reply, End | None]:
    """Goes on from a checkpoint; returns the end of a trial that has nothing left to do."""
    training.restore(saved)
    if not training.workload.goes_on_exactly:
        yield Notice(_repeated(training))
    last = _last_evaluation(saved)
    # Stopped between saving and writing the row: the row is given once more.
    if last.step > task.recorded:
        reply = yield last
        if not reply.go_on:
            return _end(training, CENSORED)
    status = _status(training, task, last.value)
    return None if status is None else _end(training, status)


def _repeated(training: Training) -> str:
    name, step = training.workload.name, training.done
    if training.workload.batches is not None:
        return f"{name}: a trial goes on at step {step}; its batches were read again from their start up to there"
    return f"{name}: a trial goes on at step {step}; data that train() reads by itself begins anew"


def _evaluated(training: Training, until: int) -> Evaluation:
    loss = training.advance(until)
    value = training.evaluate()
    seconds = training.clock.seconds
    return Evaluation(
        step=until,
        value=value if math.isfinite(value) else None,
        loss=loss if math.isfinite(loss) else None,
        training=seconds[TRAINING],
        evaluation=seconds[EVALUATION],
    )


def _evaluation_steps(workload: Workload, task: Assignment) -> list[int]:
    """The same for all seeds and contestants; with an equal budget also its last step, which is each one's own."""
    assert workload.eval_every is not None
    steps = list(range(workload.eval_every, task.max_steps + 1, workload.eval_every))
    if not task.stop_at_target and steps[-1:] != [task.max_steps]:
        steps.append(task.max_steps)
    return steps


def _status(training: Training, task: Assignment, value: float | None) -> str | None:
    """How a trial ends with this value; None if it goes on."""
    if task.stop_at_target and value is not None and training.workload.reached(value):
        return REACHED
    return None if is_finite(training.model) else DIVERGED


def is_finite(model: torch.nn.Module) -> bool:
    """A finite sum has finite terms, and is a third cheaper than the largest magnitude; large terms may overflow it."""
    values = [p.detach() for p in model.parameters() if p.numel()]
    if all(cmath.isfinite(value.sum().item()) for value in values):
        return True
    return all(math.isfinite(value) for value in torch._foreach_norm(values, math.inf))


def _end(training: Training, status: str) -> End:
    seconds = training.clock.seconds
    return End(status, training.done, seconds[TRAINING], seconds[EVALUATION])


# ------------------------------------------------------------------ checkpoints


def _identity(workload: Workload, task: Assignment) -> str:
    """The trial that a checkpoint belongs to: one of another race may lie where this one's is looked for."""
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


def _save(saver: checkpoints.Saver, training: Training, event: Evaluation) -> str | None:
    """Why it could not, if it could not."""
    return saver.save(lambda: {**training.checkpoint(), "last": dataclasses.asdict(event)})


def _last_evaluation(saved: Mapping[str, Any]) -> Evaluation:
    known = {field.name for field in dataclasses.fields(Evaluation)}
    return Evaluation(**{name: value for name, value in saved["last"].items() if name in known})
