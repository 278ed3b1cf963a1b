"""Executors that run a program's passes as torch operations; eager, foreach and compiled have them in common."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from fallline.lower.coupled import alone
from fallline.lower.edges import Edges
from fallline.lower.executor import Deferred, Executor, Lowering, Passes, StepScalars, is_partial, partial_of
from fallline.lower.item import Item
from fallline.lower.torch_source import PassSource, TorchSource, torch_source
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space

Known = list[dict[int, Any]]
"""For each item, the values of earlier passes that later passes need, by the index of their node."""


class TorchExecutor(Executor):
    """Runs the functions that ``torch_source`` writes; a subclass decides which items they take at once."""

    def __init__(self, program: Program, items: Sequence[Item]):
        super().__init__(program, items)
        self.in_pieces = any(item.place is not None for item in self.items)
        self.edges = Edges(program, self.items)
        self.source = self.make_source()

    def make_source(self) -> TorchSource:
        return torch_source(self.program, in_pieces=self.in_pieces)

    @property
    def launches(self) -> int:
        return 0

    @abc.abstractmethod
    def compute(
        self, k: int, active: Sequence[int], known: Known, scalars: StepScalars
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Runs pass k and yields (item, results) as soon as they are ready; it continues when these are stored."""

    def run(self, scalars: StepScalars) -> Deferred:
        with torch.no_grad():
            return alone(self.passes(scalars))

    def passes(self, scalars: StepScalars) -> Passes:
        active = self.present
        known: Known = [{} for _ in self.items]
        deferred: Deferred = {name: [0.0] * len(self.items) for name in self.program.deferred_writes}
        reading = self.source.passes[:-1]
        for k, one in enumerate(reading):
            for i, results in self.compute(k, active, known, scalars):
                known[i].update((n.index, r) for n, r in zip(one.gives, results, strict=True))
            yield from self.joined(one, active, known)
        for i, results in self.compute(len(reading), active, known, scalars):
            self.store(i, results, scalars, deferred)
        yield from self.edges.joined(active)
        return deferred

    def joined(self, one: PassSource, active: Sequence[int], known: Known) -> Iterator[Any]:
        """Yields the reductions that end a pass, and gives every item the joined values."""
        items, over_all = self.items, {}
        for node in one.reductions if active else ():
            if node.space == Space.ALL:
                parts = torch.stack([known[i][node.index].to("cpu", torch.float64) for i in active])
                over_all[node.index] = parts.sum() if node.attr[0] == "sum" else parts.max()
        partials = [
            partial_of(self.program, node, items[i], known[i][node.index])
            for node in one.reductions
            if node.space != Space.ALL
            for i in active
            if is_partial(node, items[i])
        ]
        nodes = {node.index: node for node in one.reductions}
        partials += [partial_of(self.program, nodes[n], items[0], value) for n, value in over_all.items()]
        if partials:
            yield partials
        for index, value in over_all.items():
            for i in active:
                known[i][index] = value.to(known[i][index].device)

    def load(self, name: str, i: int, grad_factor: float) -> Tensor:
        """An operand in the item's computing dtype."""
        item = self.items[i]
        if name == self.program.grad:
            grad = self.grads[i]
            value = grad if grad.dtype == item.dtype else grad.to(item.dtype)
            return value * grad_factor if grad_factor != 1.0 else value
        if name in item.small:
            return item.small[name].to(item.dtype)
        return item.operand(self.program, name).load(item.shape, item.dtype)

    def taken(self, one: PassSource, i: int, known: Known, grad_factor: float) -> list[Any]:
        """The inputs of a pass for one item."""
        return [
            self.load(node.attr, i, grad_factor) if node.op == "operand" else known[i][node.index] for node in one.takes
        ]

    def store(self, i: int, results: Sequence[Any], scalars: StepScalars, deferred: Deferred) -> None:
        """Writes the values of the last pass: full-size ones through their formats, then small ones and scalars."""
        program, item = self.program, self.items[i]
        written = [*program.writes, *program.small_writes]
        values = dict(zip(written, results, strict=False))
        if passes_operands_on(program):
            values = {name: _apart(program, item, name, value) for name, value in values.items()}
        for name in program.writes:
            value, operand = values[name], item.operand(program, name)
            if not isinstance(value, Tensor) or value.shape != item.shape:
                value = torch.as_tensor(value, dtype=item.dtype, device=operand.data.device).expand(item.shape)
            operand.store(value, scalars.key(i, operand.slot))
            self.edges.keep(i, name, value)
            if name == program.param and item.low_precision_copy is not None:
                item.low_precision_copy.store(value, 0)
        for name in program.small_writes:
            target = item.small[name]
            target.copy_(torch.as_tensor(values[name], dtype=target.dtype, device=target.device).expand_as(target))
        for name, value in zip(program.deferred_writes, results[len(written) :], strict=True):
            deferred[name][i] = float(value)


@functools.cache
def passes_operands_on(program: Program) -> bool:
    """Whether a value to be written may be the memory of another operand."""

    def unchanged(node: Node) -> bool:
        return node.op == "operand" or (node.op in ("where", "reduce") and any(map(unchanged, node.args)))

    return any(map(unchanged, (*program.writes.values(), *program.small_writes.values())))


class TorchLowering(Lowering):
    """A lowering to operations of torch, which take any parameter."""

    executor: ClassVar[type[TorchExecutor]]

    def obstacle(self, item: Item) -> str | None:
        return None

    def prepare(self, program: Program, items: Sequence[Item]) -> Executor:
        return self.executor(program, items)


def _apart(program: Program, item: Item, name: str, value: Any) -> Any:
    """The value, copied if it is the memory of another operand, which may be written before this value is read."""
    if not isinstance(value, Tensor) or value.numel() == 0:
        return value
    others = [item.operand(program, other).data for other in program.writes if other != name]
    others += [item.small[other] for other in program.small_writes if other != name]
    return value.clone() if any(value.data_ptr() == other.data_ptr() for other in others) else value
