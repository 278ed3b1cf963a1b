"""Trainings whose forward pass runs in 16 bits, with a loss scaler where their exponents are too few.

float16 cannot hold small gradients: the loss is multiplied by a scale that grows until gradients overflow; such a step
is skipped and counted. bfloat16 has the exponents of float32 and needs no scale.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fallline.training.scheduled_optimizer import ScheduledOptimizer

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Name → the type that matrix products are computed in; None leaves them as they are."""


class Precision:
    """One training's autocast and loss scaler.

    >>> Precision.named("bf16", "cpu").skipped, Precision.named("fp32", "cpu")
    (0, None)
    """

    def __init__(self, dtype: torch.dtype, device: str):
        self.dtype, self.device = dtype, device
        self.skipped = 0
        """Steps that the scaler skipped, because gradients were not finite."""
        self._scaler = torch.amp.GradScaler(device) if dtype is torch.float16 else None

    @classmethod
    def named(cls, name: str, device: str) -> Precision | None:
        dtype = DTYPES[name]
        return None if dtype is None else cls(dtype, torch.device(device).type)

    def forward(self) -> contextlib.AbstractContextManager[None]:
        return torch.autocast(self.device, dtype=self.dtype)

    def scaled(self, loss: Tensor) -> Tensor:
        if self._scaler is None:
            return loss
        scaled: Tensor = self._scaler.scale(loss)
        return scaled

    def step(self, optimizer: ScheduledOptimizer) -> None:
        if self._scaler is None:
            optimizer.step()
            return
        before = self._scaler.get_scale()
        self._scaler.step(optimizer.optimizer)
        self._scaler.update()
        self.skipped += self._scaler.get_scale() < before

    def state(self) -> dict[str, Any]:
        """The values that a checkpoint keeps."""
        return {"skipped": self.skipped, "scaler": {} if self._scaler is None else self._scaler.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.skipped = int(state["skipped"])
        if self._scaler is not None and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
