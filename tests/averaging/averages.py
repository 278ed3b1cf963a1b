"""Shared by these tests: the averages as wrappers, and straight-line float64 versions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.averaging import LawaEma, LawaQueue, WeightEma
from tests.contract.trajectories import set_gradients

MAKERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "LawaQueue": lambda opt: LawaQueue(opt, start=1, interval=2, k=3),
    "LawaEma": lambda opt: LawaEma(opt, start=1, interval=2, beta=0.75),
    "WeightEma": lambda opt: WeightEma(opt, decay=0.75),
}


def own(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def run(optimizer: torch.optim.Optimizer, steps: range | int) -> list[list[Tensor]]:
    """Steps, and returns the weights after each update in float64."""
    params = own(optimizer)
    seen = []
    for step in range(steps) if isinstance(steps, int) else steps:
        set_gradients(params, step)
        optimizer.step()
        seen.append([p.detach().to(torch.promote_types(p.dtype, torch.float64), copy=True) for p in params])
    return seen


def averaged(average: Any) -> list[Tensor]:
    """The weights that the model has in eval mode."""
    with average.averaged():
        return [p.detach().clone() for p in own(average)]


def lawa_queue(weights: Sequence[list[Tensor]], start: int, interval: int, k: int) -> list[Tensor] | None:
    """From the text: s counts the updates before the current one; the mean of the last k, if there are k."""
    queue = []
    for s, theta in enumerate(weights):
        if s >= start and (s - start) % interval == 0:
            queue.append(theta)
            queue = queue[-k:]
    if len(queue) < k:
        return None
    means = []
    for i in range(len(weights[0])):
        total = torch.zeros_like(weights[0][i])
        for theta in queue:
            total = total + theta[i]
        means.append(total / k)
    return means


def lawa_ema(weights: Sequence[list[Tensor]], start: int, interval: int, beta: float) -> list[Tensor] | None:
    a = None
    for s, theta in enumerate(weights):
        if s >= start and (s - start) % interval == 0:
            a = theta if a is None else [beta * x + (1 - beta) * y for x, y in zip(a, theta, strict=True)]
    return a


def weight_ema(weights: Sequence[list[Tensor]], decay: float, warmup: bool) -> list[Tensor]:
    a = weights[0]
    for s, theta in enumerate(weights[1:], start=1):
        beta = min(decay, (1 + s) / (10 + s)) if warmup else decay
        a = [beta * x + (1 - beta) * y for x, y in zip(a, theta, strict=True)]
    return a
