"""Images of ten classes for the vision workloads: Fashion-MNIST where it is, a generated stand-in where it is not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.data import fashion_mnist
from fallline.workloads.seeding import generator, minibatch
from fallline.workloads.workload import About, Workload

CLASSES = 10
VALIDATION = 2_000
AT_ONCE = 12_000
"""Images that are drawn together: what they need on the way is many times what they are."""


class StandIn(NamedTuple):
    """The images that are generated where there is no Fashion-MNIST."""

    training: int = 10_000
    shapes: int = 3
    """To a class."""
    mixed: float = 0.45
    """How much there is of a shape of another class, which makes images hard to tell."""
    noise: float = 0.6


STAND_IN = StandIn()


class Images(NamedTuple):
    name: str
    train: Tensor  # (count, 1, 28, 28) bytes
    train_labels: Tensor
    test: Tensor  # (count, 1, 28, 28) standardised
    test_labels: Tensor
    mean: float
    std: float

    def standardised(self, pixels: Tensor) -> Tensor:
        return (pixels / 255.0 - self.mean) / self.std


def images(stand_in: StandIn = STAND_IN) -> Images:
    """All of Fashion-MNIST's training images, and the first 2,000 test images: enough to tell half a per cent and
    quick to evaluate.  Where it is not installed, generated ones."""
    folder = fashion_mnist.find()
    return generated(stand_in) if folder is None else _installed(folder)


@functools.cache
def _installed(folder: Path) -> Images:
    pixels, labels = fashion_mnist.load(folder, "train")
    test, test_labels = fashion_mnist.load(folder, "test")
    x, test_x = (torch.from_numpy(part.copy()).unsqueeze(1) for part in (pixels, test[:VALIDATION]))
    y, test_y = (torch.from_numpy(part.astype(numpy.int64)) for part in (labels, test_labels[:VALIDATION]))
    return _with_statistics(fashion_mnist.NAME, x, y, test_x, test_y)


def _with_statistics(name: str, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Images:
    sample = x[:5000] / 255.0
    known = Images(name, x, y, test_x, test_y, sample.mean().item(), sample.std().item())
    return known._replace(test=known.standardised(test_x))


@functools.cache
def generated(wanted: StandIn, seed: int = 0) -> Images:
    """Blurred random shapes, several to a class, shifted, turned, scaled, mixed with another class, with noise."""
    random = generator(seed, "images")
    shapes = torch.randn(CLASSES, wanted.shapes, 1, 7, 7, generator=random)
    shapes = F.interpolate(shapes.flatten(0, 1), size=(28, 28), mode="bicubic").unflatten(0, (CLASSES, wanted.shapes))
    count = wanted.training
    total = count + VALIDATION
    parts = [_drawn(wanted, shapes, min(AT_ONCE, total - first), random) for first in range(0, total, AT_ONCE)]
    pixels, labels = map(torch.cat, zip(*parts, strict=True))
    name = f"{count:,} generated shapes"
    return _with_statistics(name, pixels[:count], labels[:count], pixels[count:], labels[count:])


def _drawn(wanted: StandIn, shapes: Tensor, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    labels = torch.randint(CLASSES, (count,), generator=random)
    others = (labels + torch.randint(1, CLASSES, (count,), generator=random)) % CLASSES
    picture = _moved(shapes, labels, random) + wanted.mixed * _moved(shapes, others, random)
    picture += wanted.noise * torch.randn(picture.shape, generator=random)
    return (128 + 40 * picture / picture.std()).clamp(0, 255).to(torch.uint8), labels


def _moved(shapes: Tensor, labels: Tensor, random: torch.Generator) -> Tensor:
    count = len(labels)
    chosen = shapes[labels, torch.randint(shapes.shape[1], (count,), generator=random)]
    angle, scale = (torch.rand(2, count, generator=random) - 0.5) * torch.tensor([[0.9], [0.5]])
    scale = scale + 1
    affine = torch.zeros(count, 2, 3)
    affine[:, 0, 0] = affine[:, 1, 1] = scale * angle.cos()
    affine[:, 0, 1], affine[:, 1, 0] = -scale * angle.sin(), scale * angle.sin()
    affine[:, :, 2] = (torch.rand(count, 2, generator=random) - 0.5) * 0.5
    grid = F.affine_grid(affine, [count, 1, 28, 28], align_corners=False)
    return F.grid_sample(chosen, grid, align_corners=False, padding_mode="zeros")


def classification(
    name: str,
    model: Callable[[], nn.Module],
    *,
    about: str,
    batch_size: int,
    max_steps: int,
    eval_every: int,
    stand_in: StandIn = STAND_IN,
) -> Workload:
    """The task that all vision workloads share; they differ in their models and in how long these train."""
    known = images(stand_in)

    def batch(step: int, seed: int) -> tuple[Tensor, Tensor]:
        rows = minibatch(step, seed, len(known.train), batch_size)
        return known.standardised(known.train[rows]), known.train_labels[rows]

    def error_rate(model: nn.Module) -> float:
        # In parts that stay in the cache.
        parts = zip(known.test.split(200), known.test_labels.split(200), strict=True)
        return torch.cat([model(x).argmax(1) != y for x, y in parts]).float().mean().item()

    return Workload(
        name=name,
        model=lambda seed: model(),
        batch=batch,
        loss=lambda model, examples: F.cross_entropy(model(examples[0]), examples[1]),
        evaluate=error_rate,
        metric="error rate",
        max_steps=max_steps,
        eval_every=eval_every,
        data_name=known.name,
        about=About("image classification", about, "CE"),
    )
