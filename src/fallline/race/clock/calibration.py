"""The cost of a training step of each contestant: measured side by side on one thread, with nothing else running.

For a plan a quick look is enough: a few steps, one contestant after the other.
"""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallline.measure.clock import Wait, nothing_to_wait_for, seconds_of
from fallline.measure.interleave import Rule, Samples, interleave, until
from fallline.measure.stats import NORMAL_95, bootstrap_median
from fallline.measure.thread_time import Usage, obstacle, usage
from fallline.race.clock.calibrated import Calibrated, Calibration
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.contestants.contestant import Contestant
from fallline.training.device import wait_for_model
from fallline.training.optimizer_factory import build
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads.workload import Workload

SAMPLE_SECONDS = 0.1
"""A sample is this long, so that what happens only every few steps (a snapshot of the weights) is in all of them."""
INTERVAL = 0.01
FEWEST = 6
"""Rounds, however long they take."""
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

    ``seconds`` is a limit; it ends before that once every ratio of two step times is known to 1 %.
    """
    steppers: dict[str, Callable[[], None]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    wait = nothing_to_wait_for
    # Whoever is built first has other memory than whoever is built last, in every process alike.
    for contestant, point in random.sample(list(arms), len(arms)):
        training = _training(workload, contestant, point, workload.max_steps)
        wait = wait_for_model(training.model)  # the same for all: the workload chooses the device
        steppers[contestant.name] = _stepper(training, workload.max_steps)
        _warm(steppers[contestant.name], training.optimizer, workload.max_steps)
        parameters = sum(p.numel() * p.element_size() for p in training.model.parameters())
        sizes[contestant.name] = (training.optimizer.state_bytes(), parameters)
        if training.optimizer.has_modes:
            steppers[contestant.name + SWITCH] = _switcher(training.optimizer)
    before = usage()
    names = [contestant.name for contestant, _ in arms]
    samples = interleave(steppers, _until_known(names, seconds), sample_seconds=SAMPLE_SECONDS, wait=wait, alike=names)
    session = _session(samples, names, _cpu_obstacle(wait, before, samples))
    peak = _peak_bytes()
    found = {}
    typical = session.typical()
    for name in names:
        state_bytes, parameter_bytes = sizes[name]
        plain = bootstrap_median(session.seconds[name])
        found[name] = Calibrated(
            step_seconds=typical[name],
            # As wide as for the plain median, whose error contains that of the machine's speed.
            low=typical[name] * plain.low / plain.value,
            high=typical[name] * plain.high / plain.value,
            switch_seconds=typical[name] * session.switch_over_step(name),
            state_bytes=state_bytes,
            parameter_bytes=parameter_bytes,
            peak_bytes=peak,
        )
    return Calibration(found, session, samples.stopped)


def _session(samples: Samples, names: Sequence[str], cpu_obstacle: str | None) -> Session:
    rounds = {name: Rounds(samples.seconds[name], samples.cpu[name]) for name in samples.seconds}
    switches = {name: rounds[name + SWITCH] for name in names if name + SWITCH in rounds}
    return Session({name: rounds[name] for name in names}, switches, cpu_obstacle)


def _cpu_obstacle(wait: Wait, before: Usage | None, samples: Samples) -> str | None:
    """Why CPU time is not the cost of these steps."""
    if wait is not nothing_to_wait_for:
        return "an accelerator does the work"
    calls = sum(len(found) * samples.calls[name] for name, found in samples.seconds.items())
    return obstacle(before, usage(), calls)


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
    """Until every ratio of two step times is known to 1 % from these rounds; one alone until its median is."""

    def known(found: Mapping[str, list[float]], done: int) -> str | None:
        is_known = done % FEWEST == 0 and _known({name: found[name] for name in names})
        return f"every ratio known to {INTERVAL:.0%}" if is_known else None

    return until(known, least=FEWEST, seconds=seconds)


def _known(found: Mapping[str, Sequence[float]]) -> bool:
    if len(found) == 1:
        (alone,) = map(bootstrap_median, found.values())
        return (alone.high - alone.low) / 2 <= INTERVAL * alone.value
    session = Session({name: Rounds(samples) for name, samples in found.items()})
    return NORMAL_95 * max(session.errors.values()) <= INTERVAL
