"""One tensor at a time in plain torch operations: the reference of every other lowering."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers
from fallline.lower.together import Late, Passes, alone
from fallline.lower.torch_source import PassSource, torch_source
from fallline.rules.graph import Node, Space
from fallline.rules.program import Program


def run_eager(program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers) -> Late:
    return alone(eager_passes(program, items, grads, numbers))


def eager_passes(
    program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers
) -> Passes:
    source = torch_source(program)
    active = [i for i, grad in enumerate(grads) if grad is not None or not program.uses_gradient]
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for k, one in enumerate(source.passes):
        last = one is source.passes[-1]
        for i in active:
            values = known[i] | load_operands(program, one, items[i], grads[i], numbers.grad_factor)
            taken = [values[node.index] for node in one.takes]
            results = one.function(*taken, *numbers.rows[numbers.row_of[i]], items[i].dtype)
            if last:
                store_results(program, items[i], results, numbers, i, late)
            else:
                known[i].update((n.index, r) for n, r in zip(one.gives, results, strict=True))
        if not last:
            here = [known[i] for i in active]
            share(program.reductions[k], here, (yield totals(program.reductions[k], here)))
    return late


def load_operands(
    program: Program, one: PassSource, item: Item, grad: Tensor | None, grad_factor: float
) -> dict[int, Tensor]:
    """The tensors a pass reads, in the item's computing dtype."""
    return {
        node.index: load_operand(program, node.attr, item, grad, grad_factor)
        for node in one.takes
        if node.op == "operand"
    }


def load_operand(program: Program, name: str, item: Item, grad: Tensor | None, grad_factor: float) -> Tensor:
    if name == program.grad:
        assert grad is not None
        value = grad if grad.dtype == item.dtype else grad.to(item.dtype)
        return value * grad_factor if grad_factor != 1.0 else value
    if name in item.small:
        return item.small[name].to(item.dtype)
    return item.operand(program, name).load(item.shape, item.dtype)


def totals(reductions: Sequence[Node], known: Sequence[dict[int, Any]]) -> list[Tensor]:
    """What a rule reduces over all parameters, reduced over those that are here."""
    found = []
    for node in reductions:
        if node.space == Space.ALL:
            parts = torch.stack([values[node.index].to("cpu", torch.float64) for values in known])
            found.append(parts.sum() if node.attr[0] == "sum" else parts.max())
    return found


def share(reductions: Sequence[Node], known: Sequence[dict[int, Any]], joined: Sequence[Tensor]) -> None:
    """Gives every parameter what is reduced over all of them."""
    over_all = [node for node in reductions if node.space == Space.ALL]
    for node, value in zip(over_all, joined, strict=True):
        for values in known:
            values[node.index] = value.to(values[node.index].device)


def store_results(
    program: Program, item: Item, results: Sequence[Any], numbers: StepNumbers, index: int, late: Late
) -> None:
    """Writes the last pass's values: full-size ones through their formats, then small ones and scalars."""
    written = [*program.writes, *program.small_writes]
    values = dict(zip(written, results, strict=False))
    if passes_operands_on(program):
        values = {name: _apart(program, item, name, value) for name, value in values.items()}
    for name in program.writes:
        value, operand = values[name], item.operand(program, name)
        if not isinstance(value, Tensor) or value.shape != item.shape:
            value = torch.as_tensor(value, dtype=item.dtype, device=operand.data.device).expand(item.shape)
        operand.store(value, numbers.key(index, operand.slot))
        if name == program.param and item.echo is not None:
            item.echo.store(value, 0)
    for name in program.small_writes:
        target = item.small[name]
        target.copy_(torch.as_tensor(values[name], dtype=target.dtype, device=target.device).expand_as(target))
    for name, value in zip(program.late_writes, results[len(written) :], strict=True):
        late[name][index] = float(value)


@functools.cache
def passes_operands_on(program: Program) -> bool:
    """Whether what is written may be another operand as it was, its very memory."""

    def unchanged(node: Node) -> bool:
        return node.op == "operand" or (node.op in ("where", "reduce") and any(map(unchanged, node.args)))

    return any(map(unchanged, (*program.writes.values(), *program.small_writes.values())))


def _apart(program: Program, item: Item, name: str, value: Any) -> Any:
    """A value that is not the memory of another operand: that may be written before this value is read."""
    if not isinstance(value, Tensor) or value.numel() == 0:
        return value
    others = [item.operand(program, other).data for other in program.writes if other != name]
    others += [item.small[other] for other in program.small_writes if other != name]
    return value.clone() if any(value.data_ptr() == other.data_ptr() for other in others) else value
