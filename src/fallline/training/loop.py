"""The one training loop: data, forward, backward, step.

A loop takes one step per call, so that several of them, each with a model of its own, can be interleaved step by step
in one process.  Its clock is read between the phases; without one, a step costs what it would cost by hand.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from torch import Tensor, nn

from fallline.training.curvature import Curvature
from fallline.training.phases import BACKWARD, CURVATURE, DATA, FORWARD, STEP, TRAINING, NoClock, PhaseClock
from fallline.training.precision import Precision
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.workloads.errors import WorkloadError
from fallline.workloads.workload import Workload


class Task(Protocol):
    """The batches and losses that a loop trains on."""

    def batch(self, step: int) -> Any:
        """The batch of a step; steps are counted from 0."""

    def loss(self, model: nn.Module, batch: Any, step: int) -> Tensor:
        """The loss to differentiate; one that needs no gradient has been differentiated already."""


class Loop:
    """Takes steps of one model under one optimizer.

    ``precision`` runs the forward pass in 16 bits; ``curvature`` updates the optimizer's Hessian every few steps.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        optimizer: ScheduledOptimizer,
        clock: PhaseClock | None = None,
        precision: Precision | None = None,
        curvature: Curvature | None = None,
    ) -> None:
        self.task, self.model, self.optimizer = task, model, optimizer
        self.clock = clock or NoClock()
        self.precision, self.curvature = precision, curvature
        self.batch: Any = None
        """The batch of the last gradients."""
        self.done = 0
        """Steps taken; the number of the next one."""

    def gradients(self) -> Tensor:
        """Puts the gradients of the next batch into the parameters; returns its loss."""
        clock = self.clock
        clock.start()
        self.batch = self.task.batch(self.done)
        clock.lap(DATA)
        if self.precision is None:
            loss = self.task.loss(self.model, self.batch, self.done)
        else:
            with self.precision.forward():
                loss = self.task.loss(self.model, self.batch, self.done)
        clock.lap(FORWARD)
        if loss.requires_grad:
            (loss if self.precision is None else self.precision.scaled(loss)).backward()
        clock.lap(BACKWARD)
        return loss

    def update(self) -> None:
        """Steps the optimizer at the rate of this step, and lets go of the gradients."""
        self.optimizer.set_rates(self.done)
        if self.precision is None:
            self.optimizer.step()
        else:
            self.precision.step(self.optimizer)
        self.optimizer.zero_grad()
        self.done += 1
        self.clock.lap(STEP)
        if self.curvature is not None and self.curvature.is_due(self.done):
            self.curvature.update(self.model, self.batch, self.optimizer, self.precision)
            self.clock.lap(CURVATURE)

    def step(self) -> Tensor:
        """One whole step; returns its loss before the update."""
        loss = self.gradients()
        self.update()
        return loss

    def advance(self, until: int) -> float:
        """Takes all steps before step ``until``; returns the loss of the last one, NaN if there was none."""
        loss = None
        while self.done < until:
            loss = self.step()
        return math.nan if loss is None else float(loss.detach())


class OwnLoop:
    """Steps that a user's own function takes, in stretches between evaluations.

    The rate of each step is set by a hook just before the optimizer steps, and steps are counted there.  Phases inside
    the function cannot be told apart: a clock counts all of it as training.
    """

    def __init__(
        self,
        workload: Workload,
        model: nn.Module,
        optimizer: ScheduledOptimizer,
        seed: int,
        clock: PhaseClock | None = None,
    ) -> None:
        self.workload, self.model, self.optimizer, self.seed = workload, model, optimizer, seed
        self.clock = clock or NoClock()
        self.done = 0

    def step(self) -> None:
        self.advance(self.done + 1)

    def advance(self, until: int) -> float:
        """Takes all steps before step ``until``; returns the loss that the function returned, NaN if it gave none."""
        if self.done >= until:
            return math.nan
        first, taken = self.done, 0

        def before_step(*_: Any) -> None:
            nonlocal taken
            if first + taken == until:
                raise self._miscounted(f"more than {until - first} times", until - first)
            self.optimizer.set_rates(first + taken)
            taken += 1

        self.clock.start()
        hook = self.optimizer.optimizer.register_step_pre_hook(before_step)
        try:
            loss = self.workload.train_steps(self.model, self.optimizer.optimizer, range(first, until), self.seed)
        finally:
            hook.remove()
        if taken != until - first:
            raise self._miscounted("1 time" if taken == 1 else f"{taken} times", until - first)
        self.optimizer.zero_grad()
        self.done = until
        self.clock.lap(TRAINING)
        return loss

    def _miscounted(self, times: str, wanted: int) -> WorkloadError:
        return WorkloadError(
            f"{self.workload.name}: train(model, optimizer, steps, seed) called optimizer.step() {times} for "
            f"{wanted} steps; call it once for each of them"
        )
