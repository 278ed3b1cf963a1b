"""The eager form through ``torch.compile``.

Scalars are elements of a tensor, and a program that does not speak of axes sees flat tensors of symbolic length, so
that one compilation serves every shape, learning rate and step; tensors of a single element are left to eager, because
the compiler specialises on the length 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers, program_view
from fallline.lower.eager import load_operands, share, store_results, totals
from fallline.lower.together import Late, Passes
from fallline.lower.torch_source import torch_source
from fallline.rules.graph import Node, Space
from fallline.rules.program import Program


@functools.cache
def compiled_pass(program: Program, k: int) -> Callable[..., Any]:
    one = torch_source(program, tensor_scalars=True).passes[k]
    names = [f"a{i}" for i in range(len(one.takes))]
    scalars = [f"row[{i}]" for i in range(len(program.row))]
    scope: dict[str, Any] = {"function": one.function}
    # A fixed number of arguments: the compiler would guard on the length of a *args tuple.
    passed = ", ".join((*names, *scalars, "dtype"))
    exec(f"def step({', '.join(('row', 'dtype', *names))}):\n    return function({passed})\n", scope)
    return torch.compile(scope["step"], dynamic=True, fullgraph=True)


def compiled_passes(
    program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers
) -> Passes:
    compiled = torch_source(program, tensor_scalars=True)
    plain = torch_source(program)
    active = [i for i, grad in enumerate(grads) if grad is not None or not program.uses_gradient]
    rows = [torch.tensor(row, dtype=torch.float64, device="cpu") for row in numbers.rows]
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for k in range(len(compiled.passes)):
        last = k == len(compiled.passes) - 1
        for i in active:
            item, row = items[i], numbers.row_of[i]
            one = plain.passes[k] if item.numel <= 1 else compiled.passes[k]
            values = known[i] | load_operands(program, one, item, grads[i], numbers.grad_factor)
            taken = [values[node.index] for node in one.takes]
            results: Sequence[Any]
            if item.numel <= 1:
                results = one.function(*taken, *numbers.rows[row], item.dtype)
            else:
                viewed = [_viewed(program, item, n, value) for n, value in zip(one.takes, taken, strict=True)]
                results = compiled_pass(program, k)(rows[row].to(item.param.data.device), item.dtype, *viewed)
                results = _unviewed(program, item, results) if last else results
            if last:
                store_results(program, item, results, numbers, i, late)
            else:
                known[i].update((n.index, r) for n, r in zip(one.gives, results, strict=True))
        if not last:
            here = [known[i] for i in active]
            share(program.reductions[k], here, (yield totals(program.reductions[k], here)))
    return late


def _view_shape(program: Program, item: Item, space: Space) -> tuple[int, ...]:
    """As many axes as the program speaks of, whatever the parameter has."""
    if program.view == "flat":
        return (item.numel,)
    batch, rows, cols = program_view(program, item.shape)
    if program.view == "lead":
        return (rows, cols if space == Space.FULL else 1)
    return (
        batch,
        rows if space in (Space.ROW, Space.FULL) else 1,
        cols if space in (Space.COL, Space.FULL) else 1,
    )


def _viewed(program: Program, item: Item, node: Node, value: Tensor) -> Tensor:
    # `.data` is no view for autograd: the compiler would guard on the shape of what it is a view of.
    return value if node.space.is_scalar else value.reshape(_view_shape(program, item, node.space)).data


def _unviewed(program: Program, item: Item, results: Sequence[Any]) -> list[Any]:
    """The written values in the shapes of what they are written to."""
    targets = [(Space.FULL, item.shape) for _ in program.writes]
    targets += [(program.states[name].space, item.small[name].shape) for name in program.small_writes]
    written = [
        value.expand(_view_shape(program, item, space)).reshape(shape) if isinstance(value, Tensor) else value
        for value, (space, shape) in zip(results, targets, strict=False)
    ]
    return [*written, *results[len(targets) :]]
