"""A workload as the task of a loop: its batches and losses for one seed, on the model's device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fallline.training.device import mover
from fallline.workloads.workload import Workload


class WorkloadTask:
    def __init__(self, workload: Workload, seed: int, device: torch.device):
        self.workload, self.seed = workload, seed
        self._reader = workload.reader(seed)
        self._move = mover(device)

    def batch(self, step: int) -> Any:
        batch = self._reader.batch(step)
        return batch if self._move is None else self._move(batch)

    def loss(self, model: nn.Module, batch: Any, step: int) -> Tensor:
        return self.workload.loss_of(model, batch, step, self.seed)

    def skip_to(self, step: int) -> None:
        """Reads what comes before a step, where batches are read in order."""
        self._reader.skip_to(step)
