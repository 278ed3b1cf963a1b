"""Gradients before the rule sees them: checked, bound, unscaled, clipped; and sparse ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, Operand, StepNumbers, real_view
from fallline.lower.eager import run_eager
from fallline.lower.native.launch import DENSE
from fallline.optim.layout import has_computing_dtype, is_distributed
from fallline.optim.options import check_optimizer_options
from fallline.optim.plan import Bucket, Member, Plan
from fallline.optimizers.describe import Description
from fallline.rules.gradients import gradient_norm
from fallline.rules.rule import Trace

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer

NORM = gradient_norm.program(Trace())


Sparse = tuple[Bucket, int, Tensor]
"""A sparse gradient, and which parameter of which bucket it is of."""

_grad_of = attrgetter("grad")


class Outdated(Exception):
    """The plan describes a layout that a parameter no longer has."""


def bind(plan: Plan, description: Description, groups: Sequence[Mapping[str, Any]]) -> list[Sparse]:
    """Takes this step's gradients; returns the sparse ones, which take a way of their own."""
    sparse: list[Sparse] = []
    try:
        for bucket in plan.buckets:
            grads = list(map(_grad_of, bucket.params))
            if bucket.bind_alike(grads):
                continue
            if bucket.is_outdated():
                raise Outdated
            for i, (member, grad) in enumerate(zip(bucket.members, grads, strict=True)):
                if grad is not None and grad.is_sparse:
                    sparse.append((bucket, i, _checked_sparse(description, groups[member.group], member, grad)))
                    grads[i] = None
            bucket.bind(grads, [_checked(bucket, m, g) for m, g in zip(bucket.members, grads, strict=True)])
    except BaseException:
        plan.release()
        raise
    return sparse


def _checked(bucket: Bucket, member: Member, grad: Tensor | None) -> Tensor | None:
    """A gradient as the lowerings take it: dense, real, of the parameter's shape and device."""
    if grad is None:
        return None
    grad = grad.detach()
    _refuse_unlike(member, grad)
    if grad.layout != torch.strided:
        raise TypeError(
            f"the gradient of {member.name} has layout {grad.layout}; only dense ones are supported: "
            "use p.grad = p.grad.to_dense()"
        )
    view = real_view(grad)
    return view if bucket.launch is None or view.dtype in DENSE else view.to(torch.float32)


def _refuse_unlike(member: Member, grad: Tensor) -> None:
    """Raises if a gradient cannot be of this parameter."""
    param, name = member.param, f"the gradient of {member.name}"
    if is_distributed(grad):
        raise TypeError(f"{name} is a DTensor; sharded gradients are not supported yet, use its local tensor")
    if grad.device != param.device:
        raise ValueError(
            f"{name} is on {grad.device}, the parameter on {param.device}; use p.grad = p.grad.to(p.device)"
        )
    if not has_computing_dtype(grad) or grad.is_complex() != param.is_complex():
        raise TypeError(
            f"{name} has dtype {grad.dtype}, with which a parameter of dtype {param.dtype} cannot be stepped; "
            f"use one of dtype {param.dtype}"
        )
    if grad.shape != param.shape:
        raise ValueError(
            f"{name} has shape {tuple(grad.shape)}, the parameter {tuple(param.shape)}; "
            "call zero_grad() and compute it anew"
        )


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


def note_overflow(optimizer: RuleOptimizer) -> None:
    """Says of a step that a GradScaler skips what its norm is; the last step's would look like one of this."""
    if optimizer.clip_norm is not None or optimizer.skip_nonfinite:
        optimizer.grad_norm = torch.tensor(math.inf, dtype=torch.float32, device="cpu")


def _norm(bucket: Bucket) -> float:
    companion = bucket.companion(NORM)
    late = companion.run(StepNumbers(rows=[()], row_of=[0] * len(bucket.items)))
    active = next(i for i, g in enumerate(bucket.grads) if g is not None)
    return late["norm"][active]


def _refuse_sparse(description: Description, group: Mapping[str, Any], name: str) -> None:
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


def _checked_sparse(description: Description, group: Mapping[str, Any], member: Member, grad: Tensor) -> Tensor:
    """A sparse gradient of a rule that takes them."""
    _refuse_sparse(description, group, member.name)
    _refuse_unlike(member, grad)
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
