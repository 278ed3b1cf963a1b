"""The cost of a training step of each contestant: measured side by side on one thread, with nothing else running.

For a plan a quick look is enough: a few steps, one contestant after the other.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fallline.measure.clock import nothing_to_wait_for, seconds_of
from fallline.measure.interleave import Rule, interleave
from fallline.measure.stats import bootstrap_median, medians_side_by_side
from fallline.race.clock.calibrated import Calibrated, Calibration
from fallline.race.contestants.contestant import Contestant
from fallline.training.device import wait_for_model
from fallline.training.optimizer_factory import build
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads.workload import Workload

SAMPLE_SECONDS = 0.1
"""A sample is this long, so that what happens only every few steps (a snapshot of the weights) is in all of them."""
INTERVAL = 0.01
SWITCH = "\0switch"
WARM_STEPS = 3
"""States exist after the first step; then two more."""
QUICK_STEPS = 3
QUICK_LENGTH = 20
"""The length of training that a quick look pretends: so short that averages of weights are in use at once."""


def calibrate(
    workload: Workload, arms: Sequence[tuple[Contestant, Mapping[str, Any]]], *, seconds: float
) -> Calibration:
    """Seconds per step, and per switch to averaged weights and back, of every contestant at its setting.

    ``seconds`` is a limit; it ends before that once every median is known to 1 %.
    """
    steppers: dict[str, Callable[[], None]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    wait = nothing_to_wait_for
    for contestant, point in arms:
        training = _training(workload, contestant, point, workload.max_steps)
        wait = wait_for_model(training.model)  # the same for all: the workload chooses the device
        steppers[contestant.name] = _stepper(training, workload.max_steps)
        _warm(steppers[contestant.name], training.optimizer, workload.max_steps)
        parameters = sum(p.numel() * p.element_size() for p in training.model.parameters())
        sizes[contestant.name] = (training.optimizer.state_bytes(), parameters)
        if training.optimizer.has_modes:
            steppers[contestant.name + SWITCH] = _switcher(training.optimizer)
    samples = interleave(steppers, _until_known(list(sizes), seconds), sample_seconds=SAMPLE_SECONDS, wait=wait)
    peak = _peak_bytes()
    found = {}
    typical = medians_side_by_side({name: samples.seconds[name] for name in sizes})
    for name in sizes:
        plain = bootstrap_median(samples.seconds[name])
        switch = samples.seconds.get(name + SWITCH)
        found[name] = Calibrated(
            step_seconds=typical[name],
            # As wide as for the plain median, whose error contains that of the machine's speed.
            low=typical[name] * plain.low / plain.value,
            high=typical[name] * plain.high / plain.value,
            switch_seconds=float(np.median(switch)) if switch else 0.0,
            state_bytes=sizes[name][0],
            parameter_bytes=sizes[name][1],
            peak_bytes=peak,
        )
    return Calibration(found, {name: samples.seconds[name] for name in sizes}, samples.stopped)


def quick_step_time(workload: Workload, contestant: Contestant, point: Mapping[str, Any]) -> tuple[float, int, int]:
    """Seconds of a step, from the fastest of three, bytes of states, and the most memory that this process has used."""
    training = _training(workload, contestant, point, QUICK_LENGTH)
    step = _stepper(training, workload.max_steps)
    _warm(step, training.optimizer, QUICK_LENGTH)
    taken = min(seconds_of(step, wait=wait_for_model(training.model)) for _ in range(QUICK_STEPS))
    return taken, training.optimizer.state_bytes(), _peak_bytes()


def _training(workload: Workload, contestant: Contestant, point: Mapping[str, Any], length: int) -> Training:
    return Training(workload, 0, lambda model: build(contestant, point, model, length))


def _peak_bytes() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _warm(step: Callable[[], None], optimizer: ScheduledOptimizer, most: int) -> None:
    """Takes steps until states exist and averages are in use, so that their memory and switches are measured too."""
    for done in range(most):
        if done >= WARM_STEPS and getattr(optimizer.optimizer, "ready", True):
            return
        step()


def _stepper(training: Training, most: int) -> Callable[[], None]:
    """One training step per call; the steps go round, so that any number can be taken."""
    loop = training.loop

    def step() -> None:
        if loop.done == most:
            loop.done = 0
        loop.step()

    return step


def _switcher(optimizer: ScheduledOptimizer) -> Callable[[], None]:
    def switch() -> None:
        optimizer.to_evaluate()
        optimizer.to_train()

    return switch


def _until_known(names: Sequence[str], seconds: float) -> Rule:
    start: list[float] = []

    def enough(found: Mapping[str, list[float]]) -> str | None:
        now, done = time.perf_counter(), min(map(len, found.values()))
        if not start:
            start.append(now)
        if done < 6:
            return None
        if now - start[0] > seconds:
            return f"at the time limit of {seconds:g} s"
        if done % 6 == 0:
            estimates = [bootstrap_median(found[name]) for name in names]
            if all((e.high - e.low) / 2 <= INTERVAL * e.value for e in estimates):
                return f"every median known to {INTERVAL:.0%}"
        return None

    return enough
