"""How a training reads its batches: as a function of the step, or from an iterable, in order.

A function of (step, seed) can be asked for any step, so a training that goes on has the batches it would have had.  An
iterable can only be read from its start: a training that goes on reads again what came before, and has the same batches
if the iterable gives the same ones.  torch's generators, and the iterable's own if it has one as a ``DataLoader`` may,
are seeded by (seed, step) before every batch; numpy's and Python's generators, files that change and time are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from fallline.workloads.seeding import mixed, seed_torch

Batches = Iterable[Any] | Callable[[int], Iterable[Any]]
"""Batches in order: an iterable that can be begun again, or seed → an iterable."""


class NoBatches(ValueError):
    """An iterable that gives nothing to train on."""


class Reader(Protocol):
    def batch(self, step: int) -> Any: ...

    def skip_to(self, step: int) -> None:
        """Makes ready to read the batch of a step, where that takes reading those before it."""


class ByStep:
    """Asks a function of (step, seed)."""

    def __init__(self, function: Callable[[int, int], Any], seed: int):
        self._function, self._seed = function, seed

    def batch(self, step: int) -> Any:
        return self._function(step, self._seed)

    def skip_to(self, step: int) -> None: ...


class InOrder:
    """Reads an iterable, and begins again where it ends; a function that makes one is called once per training."""

    def __init__(self, given: Batches, seed: int):
        self._given, self._seed = given, seed
        self._iterable: Iterable[Any] | None = None
        self._iterator: Iterator[Any] | None = None
        self._next = 0
        """The step whose batch is read next."""

    def batch(self, step: int) -> Any:
        self.skip_to(step)
        return self._read()

    def skip_to(self, step: int) -> None:
        if step < self._next:
            self._iterable = self._iterator = None
            self._next = 0
        while self._next < step:
            self._read()

    def _read(self) -> Any:
        seed_torch(number := mixed(self._seed, "batch", self._next))
        for begun_anew in (False, True):
            if self._iterator is None or begun_anew:
                self._begin(number)
            assert self._iterator is not None
            try:
                batch = next(self._iterator)
            except StopIteration:
                continue
            self._next += 1
            return batch
        raise NoBatches("batches gave none; give at least one, or seed → an iterable where it can be read only once")

    def _begin(self, number: int) -> None:
        # A generator ends for good, so its function is called again; a DataLoader or a list is begun again.
        if self._iterable is None or is_read_once(self._iterable):
            self._iterable = self._given(self._seed) if callable(self._given) else self._given
        for generator in _own_generators(self._iterable):
            generator.manual_seed(number)
        self._iterator = iter(self._iterable)


def is_read_once(iterable: Any) -> bool:
    """Whether an iterable is an iterator, such as a generator: once read, it is empty for ever."""
    return hasattr(iterable, "__next__")


def _own_generators(iterable: Any) -> list[torch.Generator]:
    """Those that a ``DataLoader`` and its sampler draw the order from, if they were given one."""
    owners = (iterable, getattr(iterable, "sampler", None))
    found = (getattr(owner, "generator", None) for owner in owners)
    return [generator for generator in found if isinstance(generator, torch.Generator)]
