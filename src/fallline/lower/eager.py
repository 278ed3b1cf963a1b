"""One tensor at a time in plain torch operations: the reference of every other lowering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers
from fallline.lower.torch_source import PassSource, torch_source
from fallline.rules.graph import Node, Space
from fallline.rules.program import Program

Late = dict[str, list[float]]
"""Scalar states that follow from reductions: name → a value per item."""


def run_eager(program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers) -> Late:
    source = torch_source(program)
    active = [i for i, grad in enumerate(grads) if grad is not None or not program.uses_gradient]
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for one in source.passes:
        last = one is source.passes[-1]
        for i in active:
            values = known[i] | load_operands(program, one, items[i], grads[i], numbers.grad_factor)
            taken = [values[node.index] for node in one.takes]
            results = one.function(*taken, *numbers.rows[numbers.row_of[i]])
            if last:
                store_results(program, items[i], results, numbers, i, late)
            else:
                known[i].update((n.index, r) for n, r in zip(one.gives, results, strict=True))
        if not last:
            combine_over_parameters(one.gives, [known[i] for i in active])
    return late


def load_operands(
    program: Program, one: PassSource, item: Item, grad: Tensor | None, grad_factor: float
) -> dict[int, Tensor]:
    """The tensors a pass reads, in the item's computing dtype."""
    loaded = {}
    for node in one.takes:
        if node.op != "operand":
            continue
        if node.attr == program.grad:
            assert grad is not None
            value = grad if grad.dtype == item.dtype else grad.to(item.dtype)
            loaded[node.index] = value * grad_factor if grad_factor != 1.0 else value
        elif node.attr in item.small:
            loaded[node.index] = item.small[node.attr].to(item.dtype)
        else:
            loaded[node.index] = item.operand(program, node.attr).load(item.shape, item.dtype)
    return loaded


def combine_over_parameters(gives: Sequence[Node], known: Sequence[dict[int, Any]]) -> None:
    """Adds up what a rule reduces over all parameters."""
    for node in gives:
        if node.op != "reduce" or node.space != Space.ALL:
            continue
        parts = torch.stack([values[node.index].to("cpu", torch.float64) for values in known])
        joined = parts.sum() if node.attr[0] == "sum" else parts.max()
        for values in known:
            values[node.index] = joined.to(values[node.index].device)


def store_results(
    program: Program, item: Item, results: Sequence[Any], numbers: StepNumbers, index: int, late: Late
) -> None:
    """Writes the last pass's values: full-size ones through their formats, then small ones and scalars."""
    remaining = iter(results)
    for name in program.writes:
        value = next(remaining)
        operand = item.operand(program, name)
        if not isinstance(value, Tensor) or value.shape != item.shape:
            value = torch.as_tensor(value, dtype=item.dtype, device=operand.data.device).expand(item.shape)
        operand.store(value, numbers.key(index, operand.slot))
        if name == program.param and item.echo is not None:
            item.echo.store(value, 0)
    for name in program.small_writes:
        item.small[name].copy_(torch.as_tensor(next(remaining)).expand_as(item.small[name]))
    for name in program.late_writes:
        late[name][index] = float(next(remaining))
