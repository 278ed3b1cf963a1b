"""Recognises tensors that are as they were: of the same types, dtypes, devices, shapes, strides and lazy bits.

Asked one attribute after the other this takes longer than the step of a small tensor; the guards of ``torch.compile``
compare all of them in one call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Fingerprint:
    """Describes a list of tensors, which it does not keep alive."""

    def __init__(self, tensors: Sequence[Tensor]):
        guards = _torch_guards()
        self._check: Callable[..., bool] | None = guards(tensors) if guards is not None else None
        self._described = [] if guards is not None else [_described(t) for t in tensors]

    def matches(self, tensors: Sequence[Tensor | None]) -> bool:
        """Whether these differ in nothing but their values and their memory.  May say no where the guards also look at
        the mode of the thread (autocast, inference): a reason to look closer, not an answer."""
        if self._check is not None:
            return self._check(*tensors)
        return [None if t is None else _described(t) for t in tensors] == self._described


def _described(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.layout != torch.strided:
        return (type(tensor), tensor.layout)
    return (
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.shape,
        tensor.stride(),
        tensor.is_neg(),
        tensor.is_conj(),
    )


@functools.cache
def _torch_guards() -> Callable[[Sequence[Tensor]], Callable[..., bool]] | None:
    """Makes a check of a list, if this torch has the guards and they see what they should: they are no public
    part of torch."""

    def make(tensors: Sequence[Tensor]) -> Callable[..., bool]:
        sizes: Any = [list(t.shape) for t in tensors]
        strides: Any = [list(t.stride()) for t in tensors]
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return guards.check

    known = torch.zeros(2, 3, device="cpu")
    same, others = torch.zeros(2, 3, device="cpu"), [
        None,
        known.to(torch.int32),
        known.to(torch.bfloat16),
        known.to("meta"),
        known.reshape(3, 2),
        known.reshape(3, 2).t(),
        known.unsqueeze(0),
        known.to_sparse(),
        torch._neg_view(known),
    ]  # fmt: skip
    try:
        check = make([known])
        return make if check(same) and not any(check(other) for other in others) else None
    except Exception:
        return None
