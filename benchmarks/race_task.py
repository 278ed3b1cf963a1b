"""Tasks whose trials take a fraction of a second, for checks that need hundreds of them."""

import torch
from torch import nn

from fallline.workloads import Workload, minibatch

ROWS, BATCH = 256, 32


def workload() -> Workload:
    """Reached after some dozen steps, and the sooner the higher the rate: the best lies at the end of AdamW's space."""
    return _regression("race_task", width=32, dropout=0.05, target=0.6)


def inside() -> Workload:
    """As the built-in workloads are: the best rate lies inside the space, and the target many evaluations ahead."""
    return _regression("race_task_inside", width=1024, dropout=0.2, target=0.37)


def _regression(name: str, width: int, dropout: float, target: float) -> Workload:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 8, generator=draw)
    y = torch.tanh(x @ torch.randn(8, 4, generator=draw)) @ torch.randn(4, 1, generator=draw)

    def loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x[rows]), y[rows])

    return Workload(
        name=name,
        model=lambda seed: nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, 1)),
        batch=lambda step, seed: minibatch(step, seed, ROWS, BATCH),
        loss=loss,
        evaluate=lambda model: nn.functional.mse_loss(model(x), y).item(),
        metric="mean squared error",
        max_steps=240,
        eval_every=4,
        target=target,
    )
