"""Memory meters: bytes alive in tensors, and what the process holds.

Peaks are taken in a pass of their own, never inside a timed one.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):
    """Bytes of all storages that torch operations returned and somebody still holds, and the most there were.

    Works on ``meta`` tensors too, which have sizes but no memory: so what a step of any size would allocate can be
    counted on any machine. Scratch memory inside one operation is not seen, nor what only a sparse tensor holds.

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
            return  # a sparse one has no storage of its own
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


def resident() -> int | None:
    """Bytes of this process in physical memory now."""
    return _status("VmRSS")


def peak_resident() -> int | None:
    """The most there were since the start or :func:`reset_peak_resident`."""
    return _status("VmHWM")


def reset_peak_resident() -> bool:
    """Whether the system let us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def trim_malloc() -> None:
    """Returns to the system what the C library keeps of freed tensors, gigabytes after large steps: otherwise the next
    program, or the next part of this one, finds less room than there is."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> int | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def state_bytes(optimizer: Any) -> int:
    """Of all tensors in an optimizer's state, shared storages once."""
    storages: dict[int, int] = {}
    for state in optimizer.state.values():
        for value in tree_iter(dict(state)):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
    return sum(storages.values())
