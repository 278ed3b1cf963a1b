"""What memory a tensor may have for a kernel to write to it."""

from __future__ import annotations

import torch
from torch import Tensor


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether two elements share memory.  torch's own test gives up on gaps.  Walking the axes from the
    smallest stride, it is enough that each steps over all that the smaller ones span; where one does not
    (interleaved axes, made by ``as_strided``), count the addresses."""
    if tensor.numel() == 0:
        return False
    span = 0
    for stride, size in sorted((st, sz) for st, sz in zip(tensor.stride(), tensor.shape, strict=True) if sz > 1):
        if stride <= span:
            return _shares_addresses(tensor)
        span += stride * (size - 1)
    return False


def _shares_addresses(tensor: Tensor) -> bool:
    if 0 in (st for st, sz in zip(tensor.stride(), tensor.shape, strict=True) if sz > 1):
        return True
    offsets = torch.zeros((), dtype=torch.int64)
    for stride, size in zip(tensor.stride(), tensor.shape, strict=True):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * stride
    return offsets.unique().numel() < tensor.numel()


def is_distributed(tensor: Tensor) -> bool:
    """A DTensor: its own memory pointer is null, the data lies in its local shard."""
    return type(tensor).__name__ == "DTensor" or hasattr(tensor, "_local_tensor")


def check_parameter(tensor: Tensor, name: str) -> None:
    """Raises if no lowering could step this parameter correctly."""
    if is_distributed(tensor):
        raise TypeError(f"{name} is a DTensor; sharded parameters are not supported yet, pass its local tensor")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError(
            f"{name} has dtype {tensor.dtype}; only floating point and complex parameters can be optimized: "
            "leave it out or convert it"
        )
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} has layout {tensor.layout}; only dense parameters can be optimized")
    if overlaps_itself(tensor):
        raise ValueError(
            f"{name} overlaps itself in memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}), so its "
            "elements cannot be stepped independently; pass the base tensor, or a .clone()"
        )
