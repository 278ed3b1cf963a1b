"""This step's gradients: checked, and bound to the executors; sparse ones are set apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.distributed.dtensors import is_distributed, local_of, mesh_of, placements_of
from fallline.lower.item import real_view
from fallline.optim.layout import has_computing_dtype
from fallline.optim.plan import Bucket, Member, Plan
from fallline.optim.sparse import Sparse, checked_sparse


class Outdated(Exception):
    """The plan describes memory or a layout that a parameter or a state no longer has."""


def bind(plan: Plan, groups: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> list[Sparse]:
    """Takes the gradients of these parameters one by one, and looks at no other: a step over a few parameters costs
    what these few cost.  Returns the sparse ones, which take a way of their own."""
    sparse: list[Sparse] = []
    try:
        for bucket, present in plan.positions_of(numbers).items():
            sparse += _bind_checked(plan, bucket, groups, present)
    except BaseException:
        plan.release()
        raise
    return sparse


def _bind_checked(
    plan: Plan, bucket: Bucket, groups: Sequence[Mapping[str, Any]], present: Sequence[int]
) -> list[Sparse]:
    if bucket.is_outdated(present):
        raise Outdated
    sparse: list[Sparse] = []
    given: dict[int, Tensor] = {}
    taken: dict[int, Tensor] = {}
    for i in present:
        member, grad = bucket.members[i], bucket.params[i].grad
        assert grad is not None
        if grad.is_sparse:
            refuse_unlike(member, grad)
            reader = plan.readers[member.group]
            sparse.append((bucket, i, checked_sparse(reader.description, groups[member.group], member, grad)))
        else:
            given[i], taken[i] = grad, _checked(member, grad)
    bucket.bind(given, taken)
    return sparse


def _checked(member: Member, grad: Tensor) -> Tensor:
    """A gradient as the lowerings take it: dense, real, of the parameter's shape and device."""
    grad = grad.detach()
    refuse_unlike(member, grad)
    grad = local_of(grad)
    if grad.layout != torch.strided:
        raise TypeError(
            f"the gradient of {member.name} has layout {grad.layout}; only dense ones are supported: "
            "use p.grad = p.grad.to_dense()"
        )
    return real_view(grad)


def refuse_unlike(member: Member, grad: Tensor) -> None:
    """Raises if a gradient cannot be of this parameter."""
    param, name = member.param, f"the gradient of {member.name}"
    if is_distributed(grad) or is_distributed(param):
        _refuse_placed_otherwise(param, grad, name)
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


def _refuse_placed_otherwise(param: Tensor, grad: Tensor, name: str) -> None:
    if is_distributed(grad) != is_distributed(param):
        kinds = ["a DTensor" if is_distributed(tensor) else "a plain tensor" for tensor in (grad, param)]
        raise TypeError(f"{name} is {kinds[0]}, the parameter {kinds[1]}; give it a gradient of its own kind")
    if placements_of(grad) != placements_of(param) or mesh_of(grad) != mesh_of(param):
        raise ValueError(
            f"{name} has the placements {placements_of(grad)}, the parameter {placements_of(param)}; "
            "use p.grad = p.grad.redistribute(p.device_mesh, p.placements)"
        )
