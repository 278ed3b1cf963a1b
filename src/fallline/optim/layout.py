"""Checks that the memory of a tensor is one that a kernel may write to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.distributed.dtensors import check_placements, is_distributed, local_of


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
    return _offsets(tensor).unique().numel() < tensor.numel()


def _offsets(tensor: Tensor) -> Tensor:
    """Where each element is, counted in elements from the first one."""
    offsets = torch.zeros((), dtype=torch.int64, device="cpu")
    for stride, size in zip(tensor.stride(), tensor.shape, strict=True):
        offsets = offsets.unsqueeze(-1) + torch.arange(size, device="cpu") * stride
    return offsets.reshape(-1)


def sharing_memory(tensors: Sequence[Tensor]) -> tuple[int, int] | None:
    """The positions of two tensors that have memory in common, if there are any.

    Slices of one buffer have spans that do not meet, and cost one comparison; only where spans do meet
    (columns of one matrix) are addresses compared.
    """
    spans = []
    for i, tensor in enumerate(tensors):
        if tensor.numel() and tensor.data_ptr():
            reach = sum(st * (sz - 1) for st, sz in zip(tensor.stride(), tensor.shape, strict=True))
            start = tensor.data_ptr()
            spans.append((tensor.device.index or 0, start, start + (reach + 1) * tensor.element_size(), i))
    spans.sort()
    open_spans: list[tuple[int, int, int, int]] = []
    for device, start, end, i in spans:
        open_spans = [s for s in open_spans if s[0] == device and s[2] > start]
        for _, _, _, j in open_spans:
            if _meet(tensors[i], tensors[j]):
                return j, i
        open_spans.append((device, start, end, i))
    return None


def _meet(a: Tensor, b: Tensor) -> bool:
    if a.element_size() != b.element_size():
        return True  # the same bytes as numbers of two kinds
    places = [t.data_ptr() + _offsets(t) * t.element_size() for t in (a, b)]
    return bool(torch.isin(places[0], places[1]).any())


def has_computing_dtype(tensor: Tensor) -> bool:
    """Whether its elements are numbers that a step can be computed with; pairs of 4-bit floats convert to nothing."""
    return tensor.is_complex() or (tensor.is_floating_point() and not str(tensor.dtype).startswith("torch.float4"))


def check_parameter(tensor: Tensor, name: str) -> None:
    """Raises if no lowering could step this parameter correctly."""
    if is_distributed(tensor):
        check_placements(tensor, name)
        tensor = local_of(tensor)
    if not has_computing_dtype(tensor):
        raise TypeError(
            f"{name} has dtype {tensor.dtype}; only floating point and complex parameters can be optimized: "
            "leave it out or convert it"
        )
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} has layout {tensor.layout}; only dense parameters can be optimized")
    if tensor.device.type == "cpu" and tensor.numel() and tensor.data_ptr() == 0:
        raise TypeError(
            f"{name} is a {type(tensor).__name__} without memory of its own; pass the tensors that hold its data"
        )
    if overlaps_itself(tensor):
        raise ValueError(
            f"{name} overlaps itself in memory (shape {tuple(tensor.shape)}, strides {tensor.stride()}), so "
            "its elements cannot be stepped independently; pass the base tensor, or a .clone()"
        )


def refuse_repeated(group: dict[str, Any]) -> None:
    """Raises if a group lists a parameter twice: torch only warns, but then steps it twice."""
    if isinstance(group["params"], (Tensor, set)):
        return
    params = group["params"] = list(group["params"])
    seen: dict[int, int] = {}
    for index, entry in enumerate(params):
        param = entry[1] if isinstance(entry, tuple) and len(entry) == 2 else entry
        if id(param) in seen:
            raise ValueError(f"parameters {seen[id(param)]} and {index} of a group are the same tensor; pass it once")
        seen[id(param)] = index


def refuse_shared(tensors: Sequence[Tensor], names: Sequence[str]) -> None:
    """Raises if two parameters share memory: stepped at once, each would see half of the other's change."""
    if found := sharing_memory(tensors):
        first, second = (names[i] for i in found)
        raise ValueError(
            f"{first} and {second} share memory, so they cannot be stepped at once; pass one of them, or a .clone()"
        )
