"""Random numbers as functions of names and counts, so that nothing has to be remembered between steps."""

from __future__ import annotations

import functools
import hashlib

import numpy
import torch
from torch import Tensor


def mixed(seed: int, *names: int | str) -> int:
    """A seed for one purpose: different names or counts give unrelated numbers.

    >>> mixed(0, "step", 1) == mixed(0, "step", 1), mixed(0, "step", 1) == mixed(1, "step", 0)
    (True, False)
    """
    text = "\0".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")


_has_accelerator = functools.cache(torch.cuda.is_available)


def seed_torch(number: int) -> None:
    """torch's own generators; ``torch.manual_seed`` spends half a millisecond per call on a stack trace for CUDA."""
    if _has_accelerator():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


def generator(seed: int, *names: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(mixed(seed, *names))


def numpy_generator(seed: int, *names: int | str) -> numpy.random.Generator:
    return numpy.random.default_rng(mixed(seed, *names))


@functools.lru_cache(maxsize=4)
def _order(size: int, epoch: int, seed: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "epoch", epoch))


def minibatch(step: int, seed: int, size: int, batch_size: int) -> Tensor:
    """Indices of the examples of one step: a new order in every epoch, incomplete batches dropped.

    >>> minibatch(0, 0, size=10, batch_size=4).shape
    torch.Size([4])
    """
    if not 1 <= batch_size <= size:
        raise ValueError(f"batch_size must be in 1 … {size}, the number of examples, got {batch_size}")
    epoch, within = divmod(step, size // batch_size)
    return _order(size, epoch, seed)[within * batch_size : (within + 1) * batch_size]
