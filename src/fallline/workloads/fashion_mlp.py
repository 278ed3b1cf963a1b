"""fashion_mlp: the lecture's network, 784-100-10 with ELU (79,510 parameters), batches of 1,024."""

from __future__ import annotations

import itertools

from torch import nn

from fallline.workloads.images import CLASSES, batch, error_rate, images, loss
from fallline.workloads.targets import with_target
from fallline.workloads.workload import About, Workload

BATCH = 1024


def feed_forward(*widths: int, activation: type[nn.Module]) -> nn.Sequential:
    """σ between linear maps: w_L ∘ σ ∘ … ∘ σ ∘ w_1."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def workload() -> Workload:
    return with_target(
        Workload(
            name="fashion_mlp",
            model=lambda seed: feed_forward(784, 100, CLASSES, activation=nn.ELU),
            batch=lambda step, seed: batch(step, seed, BATCH),
            loss=loss,
            evaluate=error_rate,
            metric="error rate",
            max_steps=1160,
            eval_every=29,
            data_name=images().name,
            about=About("image classification", "Fashion-MNIST or generated shapes", "MLP 784-100-10, ELU", "CE"),
        )
    )
