"""A tiny workload, as a user would write it, and how the tests race on it."""

from __future__ import annotations

from pathlib import Path

from fallline.race.engine.messages import GO_ON, WAITING, Event
from fallline.race.engine.trial import Events

WORKLOAD = """
import torch
from torch import nn

from fallline.workloads import Workload, minibatch

generator = torch.Generator().manual_seed(1)
inputs = torch.randn(128, 6, generator=generator)
outputs = inputs @ torch.randn(6, 1, generator=generator)


def model(seed):
    return nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 1))


def batch(step, seed):
    chosen = minibatch(step, seed, size=128, batch_size=16)
    return inputs[chosen], outputs[chosen]


def loss(model, batch):
    {in_loss}
    return (model(batch[0]) - batch[1]).square().mean()


def evaluate(model):
    {in_evaluate}
    return (model(inputs) - outputs).square().mean().item()


def workload():
    return Workload(
        name="{name}", model=model, batch=batch, loss=loss, evaluate=evaluate, metric="mse",
        max_steps={max_steps}, eval_every={eval_every}, target={target},
    )
"""


def write_workload(
    folder: Path,
    *,
    name: str = "tiny",
    max_steps: int = 120,
    eval_every: int = 10,
    target: float | None = 4.0,
    in_loss: str = "",
    in_evaluate: str = "",
) -> Path:
    """A file with a linear task that a small network learns in some dozens of steps."""
    path = folder / f"{name}.py"
    values = {"{name}": name, "{max_steps}": max_steps, "{eval_every}": eval_every, "{target}": target}
    text = WORKLOAD.replace("    {in_loss}\n", in_loss).replace("    {in_evaluate}\n", in_evaluate)
    for field, value in values.items():
        text = text.replace(field, str(value))
    path.write_text(text)
    return path


def every(run: Events, most: int | None = None) -> list[Event]:
    """The events of a trial that is told to go on; only the first ones, as if its process were killed after them."""
    found = [next(run)]
    while isinstance(found[-1], WAITING) and len(found) != most:
        found.append(run.send(GO_ON))
    return found
