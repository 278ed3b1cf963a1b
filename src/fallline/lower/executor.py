"""Lowerings and executors: a lowering prepares an executor for some parameters, and every step binds and runs it.

A lowering is one object with a name.  It says why it cannot take a parameter, and why this installation cannot run a
program; the choice of a lowering and ``explain()`` read the same answers.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from fallline.lower.item import Item
from fallline.lower.transfer import Transfer
from fallline.lower.watch import Watch, watch
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space


@dataclasses.dataclass(eq=False)
class StepScalars:
    """The numbers of one step: ``sets[set_of[i]]`` are the program's ``host_values`` for item i."""

    sets: Sequence[tuple[float, ...]]
    set_of: Sequence[int]
    grad_factor: float = 1.0
    keys: Sequence[Mapping[int, int]] | None = None
    """For each item, slot → key of its random bits; empty if nothing is rounded at random."""

    def key(self, item: int, slot: int) -> int:
        """The key of an operand that rounds at random; 0 for the others."""
        return self.keys[item].get(slot, 0) if self.keys is not None else 0


Deferred = dict[str, list[float]]
"""Scalar states that follow from reductions: name → one value per item."""


@dataclasses.dataclass(eq=False)
class Partial:
    """A reduction over the elements of one executor; ``values`` are joined in place with those of the others."""

    key: Hashable
    """The same for all parts of one reduction, whichever executor has them."""
    kind: str
    """ "sum" or "max"."""
    values: Tensor
    over_all: bool = False
    """Whether it runs over all parameters, not only over the pieces of one."""
    counted: bool = True
    """False for a copy of what another process has: it takes the joined values, but adds nothing to them."""


Passes = Generator[Sequence[Partial | Transfer], None, Deferred]
"""A run that stops wherever other executors may have a part of a reduction, or other processes a part of a matrix, and
continues with the joined values."""


class Executor(abc.ABC):
    """A program over some items, described once; every step binds gradients and runs it."""

    def __init__(self, program: Program, items: Sequence[Item]):
        self.program, self.items = program, list(items)
        self.grads: Mapping[int, Tensor] = {}
        """The gradients by the position of their items."""
        self.present: Sequence[int] = () if program.uses_gradient else range(len(self.items))
        """The items that take part in a step: those with a gradient, or all if the program uses none."""
        self._watch: Watch | None = None

    def bind(self, grads: Mapping[int, Tensor]) -> bool:
        """Takes gradients of any layout, by the position of their item.  Returns whether they are read in place, so
        that :meth:`watch` may follow."""
        self.grads, self.present = grads, list(grads)
        return True

    def watch(self, params: Sequence[Tensor] | None) -> None:
        """Remembers the layout of parameters that all have a gradient, and of the gradients; None forgets it."""
        self._watch = watch(params) if params is not None else None

    def rebind(self) -> bool:
        """Takes this step's gradients if only their memory has changed since :meth:`watch`."""
        if self._watch is None or not self._watch.look():
            return False
        self.grads, self.present = self._watch.gradients(), range(len(self.items))
        return True

    def follow(self, other: Executor) -> None:
        """Takes the gradients that another executor of the same items is bound to."""
        self.grads, self.present = other.grads, other.present

    def release(self) -> None:
        """Releases the gradients; kept until the next step, they would take memory beside the new ones."""
        self.grads = {}

    def tell_autograd(self) -> None:
        """Tells autograd that the parameters were written, for executors whose writes torch does not see."""
        if self.program.param in self.program.writes:
            items = [self.items[i] for i in self.present]
            torch.autograd.graph.increment_version([(item.low_precision_copy or item.param).data for item in items])

    @abc.abstractmethod
    def run(self, scalars: StepScalars) -> Deferred:
        """Runs one step over all bound items, in an executor that has all elements itself.  An executor whose writes
        torch does not see calls :meth:`tell_autograd`."""

    @abc.abstractmethod
    def passes(self, scalars: StepScalars) -> Passes:
        """Runs the same step, but stops where other executors may have a part of a reduction."""

    @property
    @abc.abstractmethod
    def launches(self) -> int:
        """The number of native kernels that a step launches; operations of torch are not counted."""

    def has_moved(self, items: Sequence[int]) -> bool:
        """Whether states of these items have moved in memory since they were described."""
        return False


class Lowering(abc.ABC):
    """A way to run programs."""

    name: ClassVar[str]
    kernels: ClassVar[str] = "torch"
    """A word for the kernels that an installation may lack."""
    automatic: ClassVar[bool] = False
    """Whether it may be chosen without being named, in the order of the catalogue."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def was_told(self, reason: str) -> bool:
        """Whether users have been told this reason before; a notice is given once."""
        told = reason in self._told
        self._told.add(reason)
        return told

    @abc.abstractmethod
    def obstacle(self, item: Item) -> str | None:
        """Why it cannot take this item, whatever the program; None if it can."""

    def missing(self, program: Program) -> str | None:
        """Why this installation cannot run the program in this way; None if it can."""
        return None

    @abc.abstractmethod
    def prepare(self, program: Program, items: Sequence[Item]) -> Executor:
        """An executor of items for which :meth:`obstacle` is None."""


def is_partial(node: Node, item: Item) -> bool:
    """Whether a reduction over this item covers only a part of the elements that it should combine."""
    if node.space == Space.ALL:
        return True
    return item.place is not None and item.place.cuts(node.args[0].space) and not item.place.cuts(node.space)


def partial_of(program: Program, node: Node, item: Item, values: Tensor) -> Partial:
    if node.space == Space.ALL:
        # Forms of a rule have different nodes, but the same reductions over all parameters in the same order.
        return Partial(
            (program.name, program.over_all[node.index]), node.attr[0], values, over_all=True, counted=item.counted
        )
    return Partial((item.number, node.index), node.attr[0], values, counted=item.counted)
