"""Gradients before the rule sees them: checked, unscaled, clipped; and sparse ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, Operand, StepNumbers, real_view
from fallline.lower.eager import run_eager
from fallline.lower.native.launch import DENSE
from fallline.optim.layout import is_distributed
from fallline.optim.options import check_optimizer_options
from fallline.optim.plan import Bucket
from fallline.optimizers.describe import Description
from fallline.rules.gradients import gradient_norm
from fallline.rules.rule import Trace

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer

NORM = gradient_norm.program(Trace())


def check(bucket: Bucket, index: int, grad: Tensor | None) -> Tensor | None:
    """A gradient as the lowerings take it: dense, real, of the parameter's shape and device."""
    if grad is None:
        return None
    grad = grad.detach()
    member = bucket.members[index]
    if is_distributed(grad):
        raise TypeError(f"the gradient of {member.name} is a DTensor; sharded gradients are not supported yet")
    if grad.layout != torch.strided:
        raise TypeError(f"the gradient of {member.name} has layout {grad.layout}; only dense ones are supported")
    if grad.device != member.param.device:
        raise ValueError(f"the gradient of {member.name} is on {grad.device}, the parameter on {member.param.device}")
    view = real_view(grad)
    if view.shape != member.item.shape:
        raise ValueError(
            f"the gradient of {member.name} has shape {tuple(grad.shape)}, the parameter {tuple(member.param.shape)}"
        )
    if not view.is_floating_point():
        raise TypeError(f"the gradient of {member.name} has dtype {grad.dtype}; it must be floating point")
    if bucket.launch is not None and view.dtype not in DENSE:
        return view.to(torch.float32)
    return view


def factor(optimizer: RuleOptimizer, buckets: Sequence[Bucket], sparse: Sequence[Tensor]) -> float | None:
    """What gradients are multiplied with: unscaling and clipping; None if the step is to be skipped."""
    scale = getattr(optimizer, "grad_scale", None)
    unscale = 1.0 if scale is None else 1.0 / float(scale)
    if optimizer.clip_norm is None and not optimizer.skip_nonfinite:
        return unscale
    check_optimizer_options({"clip_norm": optimizer.clip_norm, "skip_nonfinite": optimizer.skip_nonfinite})
    norms = [_norm(bucket) for bucket in buckets if any(g is not None for g in bucket.grads)]
    norms += [float(torch.linalg.vector_norm(real_view(g.values()), dtype=torch.float64)) for g in sparse]
    # hypot would hide a NaN beside an infinity; torch's norm does not.
    norm = math.nan if any(map(math.isnan, norms)) else math.hypot(*norms) * unscale
    optimizer.grad_norm = torch.tensor(norm, dtype=torch.float32, device="cpu")
    if optimizer.skip_nonfinite and not math.isfinite(norm):
        return None
    if optimizer.clip_norm is None:
        return unscale
    # As torch.nn.utils.clip_grad_norm_: the same constant, and a norm that is not finite goes through.
    return unscale * min(1.0, optimizer.clip_norm / (norm + 1e-6)) if not math.isnan(norm) else math.nan


def _norm(bucket: Bucket) -> float:
    companion = bucket.companion(NORM)
    late = companion.run(StepNumbers(rows=[()], row_of=[0] * len(bucket.items)))
    active = next(i for i, g in enumerate(bucket.grads) if g is not None)
    return late["norm"][active]


def refuse_sparse(description: Description, group: Mapping[str, Any], name: str) -> None:
    """Raises if this rule, or this rule with this weight decay, cannot take a sparse gradient."""
    if not description.sparse:
        raise TypeError(
            f"{description.class_name} does not take sparse gradients, and {name} has one; "
            "use SGD or Adagrad, or sparse=False in the embedding"
        )
    if float(group.get("weight_decay", 0.0)) != 0.0:
        raise ValueError(
            f"weight_decay={float(group['weight_decay']):g} is not possible with the sparse gradient of "
            f"{name}, as it would move every row; use weight_decay=0"
        )


def check_sparse(description: Description, groups: Sequence[Mapping[str, Any]], bucket: Bucket, index: int) -> Tensor:
    """A sparse gradient of a rule that takes them."""
    member = bucket.members[index]
    refuse_sparse(description, groups[member.group], member.name)
    grad = member.param.grad
    assert grad is not None
    return grad.detach().coalesce()


@torch.no_grad()
def run_sparse(bucket: Bucket, index: int, grad: Tensor, numbers: StepNumbers) -> None:
    """A step on the rows a sparse gradient has; where a mean keeps moving the other rows too, on all."""
    item, program = bucket.items[index], bucket.program
    keys = None if numbers.keys is None else [numbers.keys[index]]
    one = StepNumbers(numbers.rows, [numbers.row_of[index]], numbers.grad_factor, keys)
    if any(program.states[name].kind == "signed" for name in item.states):
        run_eager(program, [item], [real_view(grad.to_dense())], one)
        return
    where, values = tuple(grad.indices()), real_view(grad.values())
    loaded = {name: item.operand(program, name).load(item.shape, item.dtype) for name in program.writes}
    rows = {name: Operand(value[where]) for name, value in loaded.items()}
    part = Item(values.shape, item.dtype, rows.pop(program.param), rows, {})
    run_eager(program, [part], [values], one)
    for name in program.writes:
        operand, result = item.operand(program, name), part.operand(program, name).data
        if operand.format is None and not operand.stochastic and not operand.lazy:
            operand.data[where] = result.to(operand.data.dtype)
        else:
            # What is stored already is a value of the format: storing it again does not change it.
            loaded[name][where] = result
            operand.store(loaded[name], one.key(0, operand.slot))
        if name == program.param and item.echo is not None:
            item.echo.data[where] = result.to(item.echo.data.dtype)
