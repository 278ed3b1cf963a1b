"""fashion_mlp: the lecture's network, 784-100-10 with ELU (79,510 parameters), batches of 1,024."""

from __future__ import annotations

import itertools

from torch import nn

from fallline.workloads.images import CLASSES, StandIn, classification
from fallline.workloads.workload import Workload

BATCH = 1024
STAND_IN = StandIn(training=60_000, shapes=12, mixed=0.7, noise=0.05)
"""As many images as Fashion-MNIST has, hard to tell and with little noise to know them by: this network learns the
usual stand-in by heart, and is at its best after a fifth of the budget."""


def feed_forward(*widths: int, activation: type[nn.Module]) -> nn.Sequential:
    """σ between linear maps: w_L ∘ σ ∘ … ∘ σ ∘ w_1."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def workload() -> Workload:
    return classification(
        "fashion_mlp",
        lambda: feed_forward(784, 100, CLASSES, activation=nn.ELU),
        about="MLP 784-100-10, ELU",
        batch_size=BATCH,
        max_steps=1160,
        eval_every=29,
        stand_in=STAND_IN,
    )
