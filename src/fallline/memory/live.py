"""Bytes that are alive in tensors: those of operations that run, and those of an optimizer's states.

Unlike the memory of a process, they do not depend on the allocator, the machine or its load.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that torch operations returned and that are still in use, now and at the peak.

    It also works on ``meta`` tensors, which have sizes but no memory, so that the allocations of a step of any size can
    be counted on any machine. It does not see scratch memory inside one operation, nor the contents of sparse tensors.

    >>> import torch
    >>> with LiveBytes() as live:
    ...     a = torch.ones(1000)
    ...     b = a + 1
    ...     del b
    >>> live.now, live.peak
    (4000, 8000)
    """

    def __init__(self, known: Iterable[Tensor] = ()):
        super().__init__()
        self.now = self.peak = 0
        self._seen: dict[int, Any] = {}
        for tensor in known:
            self._hold(tensor)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                self._hold(value)
        return result

    def reset_peak(self) -> None:
        self.peak = self.now

    def _hold(self, tensor: Tensor) -> None:
        if tensor.layout != torch.strided:
            return  # a sparse tensor has no storage of its own
        storage = tensor.untyped_storage()
        key = storage._cdata
        size = storage.nbytes()
        if key in self._seen or size == 0:
            return
        self._seen[key] = weakref.ref(storage, lambda _: self._drop(key, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _drop(self, key: int, size: int) -> None:
        if self._seen.pop(key, None) is not None:
            self.now -= size


def held_by(nested: Any) -> int:
    """The bytes of all tensors in nested dicts and lists; shared storages count once."""
    storages: dict[int, int] = {}
    for value in tree_iter(nested):
        if isinstance(value, Tensor):
            for tensor in _with_memory(value):
                storage = tensor.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
    return sum(storages.values())


def _with_memory(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that a tensor of a class of its own consists of (torchao's states), or the tensor itself."""
    parts: Any = tensor  # a protocol of torch's, which its types do not let a tensor have
    if is_traceable_wrapper_subclass(parts):
        for name in parts.__tensor_flatten__()[0]:
            yield from _with_memory(getattr(parts, name))
    else:
        yield tensor


def held_by_states(optimizer: Any) -> int:
    """The bytes of all tensors in the state of any optimizer, of fallline or not."""
    return held_by([dict(state) for state in optimizer.state.values()])
