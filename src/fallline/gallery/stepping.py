"""Optimizers at their defaults: as a recipe for the trainer, and on given gradients where there is no model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

Gradient = Callable[[int, Tensor], Tensor]
"""(step, counted from 1; position) → gradient."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """An optimizer at its defaults but for the settings that it is built with."""

    optimizer: str
    schedule: str = "constant"
    averaging: str | None = None


def positions(
    make: Callable[[list[Tensor]], torch.optim.Optimizer],
    start: Tensor,
    gradient: Gradient,
    steps: int,
    *,
    rate: Callable[[int], float] | None = None,
    bound: float | None = None,
) -> Tensor:
    """The start and the position after every step: (steps + 1) × the shape of the start.

    ``rate`` sets the learning rate of a step, ``bound`` is that of a box into which every step is projected.
    """
    at = start.clone().double().requires_grad_()
    optimizer = make([at])
    seen = [at.detach().clone()]
    for step in range(1, steps + 1):
        if rate is not None:
            optimizer.param_groups[0]["lr"] = rate(step)
        at.grad = gradient(step, at.detach())
        optimizer.step()
        if bound is not None:
            at.data.clamp_(-bound, bound)
        seen.append(at.detach().clone())
    return torch.stack(seen)
