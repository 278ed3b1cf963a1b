"""Sparse gradients: a step on the rows that they have, for rules that leave the others as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fallline.lower.eager import EagerExecutor
from fallline.lower.executor import StepScalars
from fallline.lower.item import Item, Operand, real_view
from fallline.optim.plan import Bucket, Member
from fallline.optimizers.description import Description
from fallline.rules.program import Program

Sparse = tuple[Bucket, int, Tensor]
"""A sparse gradient, and which parameter of which bucket it belongs to."""


def checked_sparse(description: Description, group: Mapping[str, Any], member: Member, grad: Tensor) -> Tensor:
    """A sparse gradient of a rule that takes them."""
    if not description.sparse:
        raise TypeError(
            f"{description.class_name} does not take sparse gradients, and {member.name} has one; "
            "use SGD or Adagrad, or sparse=False in the embedding"
        )
    if float(group.get("weight_decay", 0.0)) != 0.0:
        raise ValueError(
            f"weight_decay={float(group['weight_decay']):g} is not possible with the sparse gradient of "
            f"{member.name}, as it would move every row; use weight_decay=0"
        )
    return grad.detach().coalesce()


@torch.no_grad()
def run_sparse(bucket: Bucket, index: int, grad: Tensor, scalars: StepScalars) -> None:
    """A step on the rows a sparse gradient has; where a mean keeps moving the other rows too, on all."""
    item, program = bucket.items[index], bucket.program
    keys = None if scalars.keys is None else [scalars.keys[index]]
    one = StepScalars(scalars.sets, [scalars.set_of[index]], scalars.grad_factor, keys)
    if any(program.states[name].kind == "signed" for name in item.states):
        _run_eager(program, item, real_view(grad.to_dense()), one)
        return
    where, values = tuple(grad.indices()), real_view(grad.values())
    loaded = {name: item.operand(program, name).load(item.shape, item.dtype) for name in program.writes}
    rows = {name: Operand(value[where]) for name, value in loaded.items()}
    part = Item(values.shape, item.dtype, rows.pop(program.param), rows, {})
    _run_eager(program, part, values, one)
    for name in program.writes:
        operand, result = item.operand(program, name), part.operand(program, name).data
        if operand.format is None and not operand.stochastic and not operand.lazy:
            operand.data[where] = result.to(operand.data.dtype)
        else:
            # A stored value is a value of the format already: storing it again does not change it.
            loaded[name][where] = result
            operand.store(loaded[name], one.key(0, operand.slot))
        if name == program.param and item.low_precision_copy is not None:
            copy = item.low_precision_copy.data
            copy[where] = result.to(copy.dtype)


def _run_eager(program: Program, item: Item, grad: Tensor, scalars: StepScalars) -> None:
    executor = EagerExecutor(program, [item])
    executor.bind({0: grad})
    executor.run(scalars)
