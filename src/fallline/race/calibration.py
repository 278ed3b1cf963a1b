"""What a training step of each contestant costs: measured side by side on one thread, with nothing else running.

Or, for a plan, seen at a glance: a few steps, one contestant after the other.
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
from fallline.race.building import Built, build
from fallline.race.contestants import Contestant
from fallline.race.training import wait_for_model
from fallline.workloads import Workload

SAMPLE_SECONDS = 0.1
"""A sample is this long, so that what happens only every few steps (a snapshot of the weights) is in all of them."""
INTERVAL = 0.01
SWITCH = "\0switch"
WARM_STEPS = 3
"""States exist after the first step; then two more."""
GLANCE_STEPS = 3
GLANCE_LENGTH = 20
"""The training that a glance pretends: so short that averages of weights are in use at once."""


def calibrate(workload: Workload, arms: Sequence[Mapping[str, Any]], *, seconds: float) -> dict[str, Any]:
    """Seconds per step, and per switch to averaged weights and back, of every arm.

    ``seconds`` is a limit; it ends before that once every median is known to 1 %.
    """
    steppers: dict[str, Callable[[], None]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    wait = nothing_to_wait_for
    for arm in arms:
        contestant = Contestant(**arm["contestant"])
        model = workload.new_model(0)
        wait = wait_for_model(model)  # the same for all: the workload chooses the device
        made = build(contestant, arm["point"], model, workload.max_steps)
        steppers[contestant.name] = _stepper(workload, model, made)
        _warm(steppers[contestant.name], made, workload.max_steps)
        parameters = sum(p.numel() * p.element_size() for p in model.parameters())
        sizes[contestant.name] = (made.state_bytes(), parameters)
        if made.has_modes:
            steppers[contestant.name + SWITCH] = _switcher(made)
    samples = interleave(steppers, _until_known(list(sizes), seconds), sample_seconds=SAMPLE_SECONDS, wait=wait)
    peak = _peak_bytes()
    found = {}
    typical = medians_side_by_side({name: samples.seconds[name] for name in sizes})
    for name in sizes:
        plain = bootstrap_median(samples.seconds[name])
        switch = samples.seconds.get(name + SWITCH)
        found[name] = {
            "step_seconds": typical[name],
            # As wide as for the plain median, whose error contains that of the machine's speed.
            "low": typical[name] * plain.low / plain.value,
            "high": typical[name] * plain.high / plain.value,
            "switch_seconds": float(np.median(switch)) if switch else 0.0,
            "state_bytes": sizes[name][0],
            "parameter_bytes": sizes[name][1],
            "peak_bytes": peak,
        }
    return {"found": found, "samples": {name: samples.seconds[name] for name in sizes}, "stopped": samples.stopped}


def glance(workload: Workload, arm: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a step, from the fastest of three, bytes of states, and the most memory that this process has used."""
    model = workload.new_model(0)
    made = build(Contestant(**arm["contestant"]), arm["point"], model, GLANCE_LENGTH)
    step = _stepper(workload, model, made)
    _warm(step, made, GLANCE_LENGTH)
    taken = min(seconds_of(step, wait=wait_for_model(model)) for _ in range(GLANCE_STEPS))
    return {"step_seconds": taken, "state_bytes": made.state_bytes(), "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _warm(step: Callable[[], None], made: Built, most: int) -> None:
    """Until states exist and averages are in use, so that their memory and their switches are measured too."""
    for done in range(most):
        if done >= WARM_STEPS and getattr(made.optimizer, "ready", True):
            return
        step()


def _stepper(workload: Workload, model: Any, made: Built) -> Callable[[], None]:
    """One training step per call; the steps go round, so that any number can be taken."""
    at = 0

    def step() -> None:
        nonlocal at
        made.set_rates(at)
        made.optimizer.zero_grad()
        workload.training_loss(model, at, 0).backward()
        made.optimizer.step()
        at = (at + 1) % workload.max_steps

    return step


def _switcher(made: Built) -> Callable[[], None]:
    def switch() -> None:
        made.to_evaluate()
        made.to_train()

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
