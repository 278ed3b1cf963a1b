"""quadratic_deep: DeepOBS's noisy quadratic in 100 dimensions, with its published results as an oracle.

The loss is ½ (θ − x)ᵀ H (θ − x), averaged over a batch of points x.  H has 90 eigenvalues in (0, 1) and 10 in
(30, 60), as the Hessians of deep networks have few large ones; its eigenvectors are a random rotation.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from fallline.workloads.workload import About, Workload

SIZE, POINTS, BATCH, EPOCHS = 100, 1000, 128, 100
BATCHES = POINTS // BATCH

# Ten seeds (42 … 51): registry name, settings, mean and standard deviation of the final test loss.  Schneider,
# Balles & Hennig 2019, DeepOBS (MIT), its tuned baselines.
PUBLISHED: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "sgd": ("sgd", {"lr": 0.01584893192461114}, 87.398, 0.169),
    "momentum": ("sgd", {"lr": 0.002511886431509582, "momentum": 0.99}, 87.045, 0.025),
    "adam": ("adam", {"lr": 0.039810717055349734}, 87.112, 0.024),
}
PUBLISHED_INITIAL = 353.447


def random_rotation(random: numpy.random.RandomState) -> numpy.ndarray:
    """A uniformly random rotation, grown from 2 × 2 by one Householder reflection for each further dimension."""
    angle = 2 * numpy.pi * random.uniform()
    rotation = numpy.array([[numpy.cos(angle), numpy.sin(angle)], [-numpy.sin(angle), numpy.cos(angle)]])
    for size in range(3, SIZE + 1):
        v = random.normal(size=size)
        v /= numpy.linalg.norm(v)
        x = -v
        x[0] += 1
        x /= numpy.linalg.norm(x)
        larger = numpy.eye(size)
        larger[1:, 1:] = rotation
        rotation = larger - 2 * numpy.outer(x, x @ larger)
    return -rotation


@functools.cache
def problem() -> tuple[Tensor, Tensor, Tensor]:
    """H, the training points and the test points."""
    random = numpy.random.RandomState(42)
    eigenvalues = numpy.concatenate([random.uniform(0, 1, 90), random.uniform(30, 60, 10)])
    rotation = random_rotation(random)
    hessian = rotation.T @ numpy.diag(eigenvalues) @ rotation
    train, test = (
        numpy.random.RandomState(seed).normal(0, 0.6, (POINTS, SIZE)).astype(numpy.float32) for seed in (42, 43)
    )
    return torch.from_numpy(hessian.astype(numpy.float32)), torch.from_numpy(train), torch.from_numpy(test)


class Quadratic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.ones(SIZE))

    def forward(self, points: Tensor) -> Tensor:
        away = self.theta - points
        return 0.5 * ((away @ problem()[0]) * away).sum(1).mean()


@functools.lru_cache(maxsize=16)
def _order(seed: int) -> Tensor:
    """Drawn once per seed and used in every epoch, as the published runs did."""
    return torch.from_numpy(numpy.random.RandomState(seed).permutation(POINTS))


def batch(step: int, seed: int) -> Tensor:
    start = step % BATCHES * BATCH
    return problem()[1][_order(seed)[start : start + BATCH]]


def evaluate(model: nn.Module) -> float:
    """The test loss over whole batches: the last, incomplete one is left out."""
    return float(model(problem()[2][: BATCHES * BATCH]))


def workload() -> Workload:
    return Workload(
        name="quadratic_deep",
        model=lambda seed: Quadratic(),
        batch=batch,
        loss=lambda model, points: model(points),
        evaluate=evaluate,
        metric="test loss",
        max_steps=EPOCHS * BATCHES,
        eval_every=BATCHES,
        data_name="DeepOBS's generated points",
        about=About("noisy quadratic", "100 numbers", "quadratic"),
    )
