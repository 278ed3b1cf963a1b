"""fashion_mlp: the lecture's network, 784-100-10 with ELU (79,510 parameters), batches of 1,024."""

from __future__ import annotations

from torch import nn

from fallline.workloads.images import CLASSES, batch, error_rate, images, loss
from fallline.workloads.targets import with_target
from fallline.workloads.workload import About, Workload

BATCH = 1024


def workload() -> Workload:
    return with_target(
        Workload(
            name="fashion_mlp",
            model=lambda seed: nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ELU(), nn.Linear(100, CLASSES)),
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
