"""Exchanging and averaging the contents of tensors, a block at a time.

Contents are exchanged, not storages, so that the parameter stays the same object at the same address.  Kernels
that hold its pointer, the hooks of autograd and DDP, CUDA graphs, views and tied weights all stay valid, and
autograd's version counter tells a backward pass that its saved weights are gone.  Swapping ``.data`` would
break the former and hide the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 1 << 16
"""Elements exchanged at a time, so that the scratch copy stays in the second-level cache."""


def local(tensor: Tensor) -> Tensor:
    """The memory behind a parameter; for a sharded parameter (DTensor), the part that this process holds."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def blocks(tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """The same small parts of tensors of one shape, whatever their strides."""
    shape, numel = tensors[0].shape, tensors[0].numel()
    if numel <= BLOCK:
        yield tuple(tensors)
        return
    # Cut the outermost axis in memory if its slices are small enough, so that blocks lie in one piece.
    outermost = sorted(range(len(shape)), key=tensors[0].stride, reverse=True)
    longest = max(outermost, key=shape.__getitem__)
    axis = next((i for i in outermost if numel // shape[i] <= BLOCK), longest)
    size = max(1, BLOCK * shape[axis] // numel)
    yield from zip(*(t.split(size, dim=axis) for t in tensors), strict=True)


@torch.no_grad()
def exchange(a: Tensor, b: Tensor) -> None:
    """Exchanges the contents of two tensors of one shape and dtype, bit by bit."""
    for x, y in blocks([local(a), local(b)]):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)


@torch.no_grad()
def write_mean(target: Tensor, parts: Sequence[Tensor]) -> None:
    """The mean of tensors, summed in double precision and rounded once."""
    wide = torch.promote_types(target.dtype, torch.float64)
    for out, first, *others in blocks([local(t) for t in (target, *parts)]):
        total = first.to(wide, copy=True)
        for x in others:
            total += x
        out.copy_(total / len(parts))
