"""The step counters of all parameters, in one flat tensor; those in the states are views of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def counter_dtype() -> torch.dtype:
    """As torch counts: in float64 where that is the default dtype, otherwise in float32, exact to 16 million steps."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


class Counters:
    """Remembers whether all are equal, which is the rule, instead of comparing a thousand of them at every step.

    Autograd's version of the tensor tells when somebody else has written to one of its views.
    """

    def __init__(self, flat: Tensor):
        self.flat = flat
        # numpy's view of the same memory: its operations start faster than torch's.
        self.array = flat.numpy()
        self._address = flat.data_ptr()
        self._common: float | None = None
        self._version = -1

    def has_moved(self) -> bool:
        """Whether numpy's view is of memory that the tensor has left (``share_memory_()`` on one of its views)."""
        return self.flat.data_ptr() != self._address

    def common(self) -> float | None:
        """The value of all counters, None if they differ."""
        if self._version != self.flat._version:
            self._version = self.flat._version
            self._common = float(self.array[0]) if len(self.array) and (self.array == self.array[0]).all() else None
        return self._common

    def advance_all(self) -> None:
        if self._common is None:
            self.array += 1.0
        else:
            self._common += 1.0
            self.array.fill(self._common)  # in a small step the addition would take longer than the kernel

    def advance(self, numbers: Any) -> None:
        self.array[numbers] += 1.0
        self._version = -1

    def set(self, numbers: Any, value: float) -> None:
        self.array[numbers] = value
        self._version = -1
