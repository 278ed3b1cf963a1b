"""Recognises tensors that are as they were in the last step, so that none of them needs a closer look.

A reader looks at tensors: the one in C (``lower/native/torch_watch.py``) where torch has the functions for it, and
otherwise the one in Python, which does the same more slowly.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import c_uint64
from itertools import chain
from operator import attrgetter, is_
from typing import Protocol

from torch import Tensor

from fallline.lower.fingerprint import Fingerprint
from fallline.lower.native.torch_watch import torch_reader

_grad_of = attrgetter("grad")

Pointers = ctypes.Array[c_uint64]


class Watch(Protocol):
    """Parameters that all have a gradient, and their states."""

    def look(self) -> bool:
        """Whether nothing but the memory of gradients has changed; the pointers given to the watch are then theirs."""

    def gradients(self) -> dict[int, Tensor]:
        """The gradients that :meth:`look` has found, by the position of their parameter."""

    def tell_autograd(self) -> bool:
        """Counts a write to every parameter; false if this watch cannot."""


class Members(Protocol):
    """Lists of parameters."""

    def are_in(self, lists: list[list[Tensor]]) -> bool:
        """Whether these lists hold the same parameters."""

    def with_gradient(self) -> list[int]:
        """The positions of those that have a gradient, all lists taken as one."""


class Reader(Protocol):
    """Makes watches; None for tensors that it cannot look at."""

    def watch(self, params: Sequence[Tensor], states: Sequence[Tensor], pointers: Pointers | None) -> Watch | None: ...

    def members(self, lists: Sequence[Sequence[Tensor]]) -> Members | None: ...


def watch(params: Sequence[Tensor], states: Sequence[Tensor] = (), pointers: Pointers | None = None) -> Watch:
    """Parameters that all have a gradient; the gradients' addresses are written to ``pointers``."""
    reader: Reader | None = torch_reader()
    found = reader.watch(params, states, pointers) if reader is not None else None
    return found or _PythonWatch(params, states, pointers)


def members(lists: Sequence[Sequence[Tensor]]) -> Members:
    """Remembers what these lists hold now."""
    reader: Reader | None = torch_reader()
    found = reader.members(lists) if reader is not None else None
    return found or _PythonMembers(lists)


class _PythonWatch:
    def __init__(self, params: Sequence[Tensor], states: Sequence[Tensor], pointers: Pointers | None):
        self._params, self._states = list(params), list(states)
        self._addresses = self._addresses_now()
        self._fingerprint = Fingerprint((*self._params, *map(_grad_of, self._params)))
        self._pointers, self._pack = pointers, struct.Struct(f"{len(self._params)}Q").pack_into

    def _addresses_now(self) -> list[int]:
        return list(map(Tensor.data_ptr, chain(self._params, self._states)))

    def look(self) -> bool:
        grads = list(map(_grad_of, self._params))
        if self._addresses_now() != self._addresses or not self._fingerprint.matches((*self._params, *grads)):
            return False
        if self._pointers is not None:
            self._pack(self._pointers, 0, *map(Tensor.data_ptr, grads))
        return True

    def gradients(self) -> dict[int, Tensor]:
        return dict(enumerate(map(_grad_of, self._params)))

    def tell_autograd(self) -> bool:
        return False


class _PythonMembers:
    def __init__(self, lists: Sequence[Sequence[Tensor]]):
        self._lists = [list(one) for one in lists]
        self._all = list(chain.from_iterable(lists))

    def are_in(self, lists: list[list[Tensor]]) -> bool:
        return list(map(len, lists)) == list(map(len, self._lists)) and all(
            map(is_, chain.from_iterable(lists), self._all)
        )

    def with_gradient(self) -> list[int]:
        return [i for i, grad in enumerate(map(_grad_of, self._all)) if grad is not None]
