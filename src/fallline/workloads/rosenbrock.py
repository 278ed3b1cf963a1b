"""rosenbrock: f(x, y) = (1 − x)² + 100 (y − x²)², the curved valley that many pictures of optimizers show."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fallline.workloads.seeding import generator
from fallline.workloads.workload import About, Workload

START = (-1.5, 2.0)
TARGET = 0.01
"""Chosen: the least value, 0, is known, and some methods reach it."""


class Point(nn.Module):
    def __init__(self, seed: int):
        super().__init__()
        # Seeds differ by where they start, a little around the usual point.
        self.xy = nn.Parameter(torch.tensor(START) + 0.02 * torch.randn(2, generator=generator(seed, "start")))

    def forward(self) -> Tensor:
        x, y = self.xy
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def workload() -> Workload:
    return Workload(
        name="rosenbrock",
        model=Point,
        batch=lambda step, seed: None,
        loss=lambda model, batch: model(),
        evaluate=lambda model: model().item(),
        metric="f",
        max_steps=3000,
        eval_every=50,
        target=TARGET,
        data_name="none: a function",
        about=About("minimise a function", "two numbers", "f"),
    )
