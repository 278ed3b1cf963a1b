"""A task whose trials take a fraction of a second, for checks that need hundreds of them."""

import torch
from torch import nn

from fallline.workloads import Workload, minibatch

ROWS, BATCH = 256, 32


def workload() -> Workload:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 8, generator=draw)
    y = torch.tanh(x @ torch.randn(8, 4, generator=draw)) @ torch.randn(4, 1, generator=draw)

    def loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x[rows]), y[rows])

    return Workload(
        name="race_task",
        model=lambda seed: nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Dropout(0.05), nn.Linear(32, 1)),
        batch=lambda step, seed: minibatch(step, seed, ROWS, BATCH),
        loss=loss,
        evaluate=lambda model: nn.functional.mse_loss(model(x), y).item(),
        metric="mean squared error",
        max_steps=240,
        eval_every=4,
        target=0.6,
    )
