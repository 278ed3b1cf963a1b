"""A workload's model in training: it advances, evaluates, can be saved, and goes on exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from fallline.training.curvature import Curvature
from fallline.training.device import device_of, wait_for_model
from fallline.training.loop import Loop, OwnLoop
from fallline.training.phases import EVALUATION, TRAINING, PhaseClock
from fallline.training.precision import Precision
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.tasks import WorkloadTask
from fallline.workloads.workload import Workload

Prepare = Callable[[nn.Module], ScheduledOptimizer]
"""Makes the optimizer for a model."""


class Training:
    """``clock`` counts the seconds of training and of evaluation; switching to averaged weights and back is training.

    ``phases`` counts the phases of every step apart, for whoever asks.  ``device``, ``compiled`` and ``precision`` say
    where and how the model computes; without them it is the workload's choice.
    """

    def __init__(
        self,
        workload: Workload,
        seed: int,
        prepare: Prepare,
        phases: PhaseClock | None = None,
        *,
        device: str | None = None,
        compiled: bool = False,
        precision: Precision | None = None,
    ):
        self.workload = workload
        self.model = workload.new_model(seed)
        if device is not None:
            self.model.to(device)
        if compiled:
            self.model.compile()
        self.optimizer = prepare(self.model)
        self.precision = precision
        self.clock = PhaseClock(wait_for_model(self.model))
        self.loop: Loop | OwnLoop
        self._task: WorkloadTask | None = None
        if workload.train is not None:
            self.loop = OwnLoop(workload, self.model, self.optimizer, seed, phases)
        else:
            self._task = WorkloadTask(workload, seed, device_of(self.model))
            self.loop = Loop(self._task, self.model, self.optimizer, phases, precision, self._curvature())

    def _curvature(self) -> Curvature | None:
        """For optimizers that need it: on labels drawn from the model, or on the true ones if these cannot be drawn."""
        loss = self.workload.sampled_loss or self.workload.loss
        wanted = loss is not None and callable(getattr(self.optimizer.optimizer, "update_hessian", None))
        return Curvature(loss) if wanted and loss is not None else None

    @property
    def done(self) -> int:
        """Steps taken."""
        return self.loop.done

    def advance(self, until: int) -> float:
        """Takes the steps before ``until``; returns the loss of the last one."""
        self.clock.start()
        loss = self.loop.advance(until)
        self.clock.lap(TRAINING)
        return loss

    def evaluate(self) -> float:
        """The validation metric, of averaged weights where the optimizer has them."""
        self.clock.start()
        self.optimizer.to_evaluate()
        self.clock.lap(TRAINING)
        value = self.workload.validate(self.model)
        self.clock.lap(EVALUATION)
        self.optimizer.to_train()
        self.clock.lap(TRAINING)
        return value

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Plain data and tensors: all that a training needs to go on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict(),
            "attributes": self.optimizer.attributes,
            "step": self.done,
            "training": self.clock.seconds[TRAINING],
            "evaluation": self.clock.seconds[EVALUATION],
            **({} if self.precision is None else {"precision": self.precision.state()}),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint.

        Batches that are read in order are read again up to there, off the clock.
        """
        self.model.load_state_dict(saved["model"])
        self.optimizer.restore(saved["optimizer"], saved["attributes"])
        if self.precision is not None:
            self.precision.restore(saved["precision"])
        self.loop.done = saved["step"]
        self.clock.seconds |= {TRAINING: saved["training"], EVALUATION: saved["evaluation"]}
        if self._task is not None:
            self._task.skip_to(self.done)
