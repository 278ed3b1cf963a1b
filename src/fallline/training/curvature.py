"""The Hessian update of optimizers that estimate curvature, really called: SophiaG's, every few steps.

It takes a forward and a backward pass of its own, on labels drawn from the model's output. Where a workload cannot draw
labels, the gradients of its true labels stand in (the empirical Fisher), and whoever shows the result says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fallline.training.precision import Precision
from fallline.training.scheduled_optimizer import ScheduledOptimizer

EVERY = 10
"""Steps between two updates, as its authors advise."""


class Curvature:
    """``loss`` is that on sampled labels, or on the true ones."""

    def __init__(self, loss: Callable[[Any, Any], Tensor], every: int = EVERY):
        self.loss, self.every = loss, every

    def is_due(self, done: int) -> bool:
        """In the middle between two multiples of ten, so that a stretch of ten steps has exactly one."""
        return done % self.every == self.every // 2

    def update(self, model: nn.Module, batch: Any, optimizer: ScheduledOptimizer, precision: Precision | None) -> None:
        with contextlib.nullcontext() if precision is None else precision.forward():
            loss = self.loss(model, batch)
        loss.backward()
        optimizer.optimizer.update_hessian()  # type: ignore[attr-defined]
        optimizer.zero_grad()
