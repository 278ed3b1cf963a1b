"""Gradients before the rule sees them: checked, unscaled, clipped; and sparse ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, Operand, StepNumbers
from fallline.lower.eager import run_eager
from fallline.optim.layout import is_distributed
from fallline.optim.plan import Bucket
from fallline.optim.states import real_view
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
    if bucket.launch is not None and view.dtype == torch.float64:
        return view.to(torch.float32)
    return view


def factor(optimizer: RuleOptimizer, buckets: Sequence[Bucket], sparse: Sequence[Tensor]) -> float | None:
    """What gradients are multiplied with: unscaling and clipping; None if the step is to be skipped."""
    scale = getattr(optimizer, "grad_scale", None)
    unscale = 1.0 if scale is None else 1.0 / float(scale)
    if optimizer.clip_norm is None and not optimizer.skip_nonfinite:
        return unscale
    squares = [_norm(bucket) ** 2 for bucket in buckets if any(g is not None for g in bucket.grads)]
    squares += [float(g.coalesce().values().double().square().sum()) for g in sparse]
    norm = math.sqrt(math.fsum(squares)) * unscale if all(map(math.isfinite, squares)) else math.nan
    if not math.isfinite(norm) and any(s == math.inf for s in squares):
        norm = math.inf
    optimizer.grad_norm = torch.tensor(norm, dtype=torch.float32)
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


def check_sparse(
    description: Description, groups: Sequence[Mapping[str, Any]], bucket: Bucket, index: int
) -> Tensor:
    """A sparse gradient of a rule that takes them."""
    member = bucket.members[index]
    grad = member.param.grad
    assert grad is not None
    if not description.sparse:
        raise TypeError(
            f"{description.class_name} does not take sparse gradients, and {member.name} has one; "
            "use SGD or Adagrad, or sparse=False in the embedding"
        )
    if groups[member.group].get("weight_decay", 0.0) != 0.0:
        raise ValueError(f"weight_decay is not possible with the sparse gradient of {member.name}; use weight_decay=0")
    return grad.coalesce()


def run_sparse(bucket: Bucket, index: int, grad: Tensor, numbers: StepNumbers) -> None:
    """A step on the rows a sparse gradient has.  Where the rule also moves other rows (momentum), densely."""
    item, program = bucket.items[index], bucket.program
    one = StepNumbers(numbers.rows, [numbers.row_of[index]], numbers.grad_factor)
    if "momentum_buffer" in item.states:
        run_eager(program, [item], [grad.to_dense()], one)
        return
    where = tuple(grad.indices())
    gathered = {name: o.load(item.shape, item.dtype)[where] for name, o in item.states.items()}
    whole = item.param.load(item.shape, item.dtype)
    values = Item(
        grad.values().shape,
        item.dtype,
        Operand(whole[where]),
        {name: Operand(value) for name, value in gathered.items()},
        {},
    )
    run_eager(program, [values], [grad.values()], one)
    for target, source in ((item.param, values.param), *((item.states[n], values.states[n]) for n in gathered)):
        full = target.load(item.shape, item.dtype)
        full = full if target.format is None and full.dtype == target.data.dtype else full.clone()
        full[where] = source.data
        target.store(full, 0)
