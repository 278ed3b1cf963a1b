"""Training a small character model on the sources of Python's standard library, which every machine has."""

from __future__ import annotations

import dataclasses
import functools
import math
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpt import GPT
from fallline.training.loop import Loop
from fallline.training.scheduled_optimizer import ScheduledOptimizer

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
OTHER = len(ALPHABET)  # stands for every other byte
VOCABULARY = OTHER + 1
CHARACTERS = 8_000_000
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


@dataclasses.dataclass(frozen=True)
class Training:
    """A run, all of it: the same values give the same losses on one machine."""

    steps: int = 1000
    batch: int = 16
    context: int = 64
    width: int = 128
    layers: int = 4
    lr: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.1
    evaluation_batches: int = 64


@functools.cache
def texts() -> tuple[Tensor, Tensor]:
    """Training and validation text as symbols; every tenth file is for validation."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(p for p in root.rglob("*.py") if not LEFT_OUT & set(p.relative_to(root).parts))
    symbols = bytes(ALPHABET.index(chr(b)) if chr(b) in ALPHABET else OTHER for b in range(256))
    parts = (bytearray(), bytearray())
    for number, file in enumerate(files):
        parts[number % 10 == 9].extend(file.read_bytes().translate(symbols))
        if len(parts[0]) >= CHARACTERS:
            break
    train, validation = (torch.frombuffer(part, dtype=torch.uint8).long() for part in parts)
    return train, validation


def batch(text: Tensor, training: Training, generator: torch.Generator) -> Tensor:
    starts = torch.randint(len(text) - training.context - 1, (training.batch,), generator=generator)
    return torch.stack([text[start : start + training.context + 1] for start in starts.tolist()])


def train(
    training: Training,
    seed: int,
    optimizer_for: Callable[[GPT], torch.optim.Optimizer],
    after_step: Callable[[int, Any], None] = lambda step, optimizer: None,
) -> float:
    """Trains and returns the loss on fixed validation text; ``after_step`` may look at the optimizer."""
    torch.manual_seed(seed)
    model = GPT(VOCABULARY, training.width, training.layers, context=training.context)
    optimizer = optimizer_for(model)
    scheduled = ScheduledOptimizer.around(optimizer, lambda step, peak: rate(training, step))
    loop = Loop(NextCharacter(training, seed), model, scheduled)
    while loop.done < training.steps:
        loop.step()
        after_step(loop.done, optimizer)
    return validation_loss(model, training)


class NextCharacter:
    """Batches of the training text, drawn one after the other."""

    def __init__(self, training: Training, seed: int):
        self.training, (self.text, _) = training, texts()
        self.generator = torch.Generator().manual_seed(seed)

    def batch(self, step: int) -> Tensor:
        return batch(self.text, self.training, self.generator)

    def loss(self, model: Any, tokens: Tensor, step: int) -> Tensor:
        loss: Tensor = model.loss(tokens)
        return loss


def rate(training: Training, step: int) -> float:
    """Linear warm-up, then a cosine down to zero, so that the final loss has little noise of its own."""
    if step < training.warmup:
        return training.lr * (step + 1) / training.warmup
    done = (step - training.warmup) / max(1, training.steps - training.warmup)
    return training.lr * 0.5 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def validation_loss(model: GPT, training: Training) -> float:
    generator = torch.Generator().manual_seed(0)
    batches = (batch(texts()[1], training, generator) for _ in range(training.evaluation_batches))
    losses = [model.loss(tokens).item() for tokens in batches]
    return sum(losses) / len(losses)
