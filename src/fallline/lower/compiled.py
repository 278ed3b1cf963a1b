"""The eager form through ``torch.compile``.

Scalars are elements of a tensor, and a program that does not use axes sees flat tensors of symbolic length, so that one
compilation serves every shape, learning rate and step.  Tensors of a single element are left to eager, because the
compiler specialises on the length 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.executor import StepScalars
from fallline.lower.item import Item, program_view
from fallline.lower.torch_executor import Known, TorchExecutor, TorchLowering
from fallline.lower.torch_source import TorchSource, torch_source
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space


@functools.cache
def compiled_pass(program: Program, k: int, in_pieces: bool) -> Callable[..., Any]:
    one = torch_source(program, tensor_scalars=True, in_pieces=in_pieces).passes[k]
    names = [f"a{i}" for i in range(len(one.takes))]
    scalars = [f"scalars[{i}]" for i in range(len(program.host_values))]
    scope: dict[str, Any] = {"function": one.function}
    # A fixed number of arguments: the compiler would guard on the length of a *args tuple.
    passed = ", ".join((*names, *scalars, "dtype"))
    exec(f"def step({', '.join(('scalars', 'dtype', *names))}):\n    return function({passed})\n", scope)
    return torch.compile(scope["step"], dynamic=True, fullgraph=True)


class CompiledExecutor(TorchExecutor):
    def make_source(self) -> TorchSource:
        self.plain = torch_source(self.program, in_pieces=self.in_pieces)
        return torch_source(self.program, tensor_scalars=True, in_pieces=self.in_pieces)

    def compute(
        self, k: int, active: Sequence[int], known: Known, scalars: StepScalars
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        last = k == len(self.source.passes) - 1
        sets = [torch.tensor(one, dtype=torch.float64, device="cpu") for one in scalars.sets]
        for i in active:
            item, chosen = self.items[i], scalars.set_of[i]
            one = (self.plain if item.numel <= 1 else self.source).passes[k]
            taken = self.taken(one, i, known, scalars.grad_factor)
            if item.numel <= 1:
                yield i, one.function(*taken, *scalars.sets[chosen], item.dtype)
                continue
            viewed = [_viewed(self.program, item, n, value) for n, value in zip(one.takes, taken, strict=True)]
            function = compiled_pass(self.program, k, self.in_pieces)
            results = function(sets[chosen].to(item.param.data.device), item.dtype, *viewed)
            yield i, _unviewed(self.program, item, results) if last else results


class Compiled(TorchLowering):
    name = "compiled"
    executor = CompiledExecutor


def _view_shape(program: Program, item: Item, space: Space) -> tuple[int, ...]:
    """The tensor with as many axes as the program uses, whatever the parameter has."""
    if program.view == "flat":
        return (item.numel,)
    batch, rows, cols = program_view(program, item.shape)
    if program.view == "dim0":
        return (rows, cols if space == Space.FULL else 1)
    return (
        batch,
        rows if space in (Space.ROW, Space.FULL) else 1,
        cols if space in (Space.COL, Space.FULL) else 1,
    )


def _viewed(program: Program, item: Item, node: Node, value: Tensor) -> Tensor:
    # `.data` is no view for autograd; for a view, the compiler would guard on the shape of its base.
    return value if node.space.is_scalar else value.reshape(_view_shape(program, item, node.space)).data


def _unviewed(program: Program, item: Item, results: Sequence[Any]) -> list[Any]:
    """The written values in the shapes of the tensors that they are written to."""
    targets = [(Space.FULL, item.shape) for _ in program.writes]
    targets += [(program.states[name].space, item.small[name].shape) for name in program.small_writes]
    written = [
        value.expand(_view_shape(program, item, space)).reshape(shape) if isinstance(value, Tensor) else value
        for value, (space, shape) in zip(results, targets, strict=False)
    ]
    return [*written, *results[len(targets) :]]
