"""The temporaries of a step, besides parameters, gradients and states, counted on tensors without memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fallline.lower.chain import scratch_elements
from fallline.lower.item import real_shape
from fallline.memory.live import LiveBytes
from fallline.optim.group_reader import RULE
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS
from fallline.rules.chain import Chain

FLAGS: Mapping[str, Mapping[str, bool]] = {
    "eager": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
}
"""Lowerings in torch operations, which allocate."""
NATIVE = ("native", "native each")


def temporaries(optimizer: RuleOptimizer, lowering: str) -> int:
    """The bytes at the peak of a step by this lowering, over the parameters that require a gradient.

    Native kernels allocate nothing.  Around matrix functions, which are torch's in every lowering, they are counted as
    eager operations, which allocate a little more.
    """
    chains = _chains(optimizer)
    if lowering in NATIVE:
        if not chains:
            return 0
        lowering = "eager"
    if lowering not in FLAGS:
        known = ", ".join((*FLAGS, *NATIVE))
        raise ValueError(f"the temporaries of the lowering {lowering!r} cannot be counted; those of {known} can")
    with MadeUpValues():
        twin = _twin(optimizer, FLAGS[lowering])
        twin.step()  # makes the states, and the scratch memory of matrix functions
        return allocated_by_step(twin) + sum(4 * scratch_elements(chain, shapes) for chain, shapes in chains.items())


def _chains(optimizer: RuleOptimizer) -> dict[Chain, list[tuple[int, ...]]]:
    """The programs that call matrix functions, with the shapes that they step."""
    found: dict[Chain, list[tuple[int, ...]]] = {}
    for group in optimizer.param_groups:
        reader = optimizer._readers.of(group)
        for param in group["params"]:
            shape = tuple(real_shape(param))
            program = reader.program(group, len(shape)) if param.requires_grad or param.grad is not None else None
            if isinstance(program, Chain):
                found.setdefault(program, []).append(shape)
    return found


def _twin(optimizer: RuleOptimizer, flags: Mapping[str, bool]) -> RuleOptimizer:
    """The same optimizer over parameters without memory, all of which have a gradient."""
    groups = []
    for group in optimizer.param_groups:
        known = {RULE, *GROUP_OPTIONS, *optimizer._readers.of(group).description.defaults}
        options = {name: value for name, value in group.items() if name in known}
        params = [on_meta(param) for param in group["params"] if param.requires_grad or param.grad is not None]
        groups.append({**options, **flags, "compiled": False, "params": params})
    settings = {name: value for name, value in optimizer.defaults.items() if name in optimizer.description.defaults}
    return type(optimizer)(groups, **{**settings, **flags})


def on_meta(param: Tensor) -> torch.nn.Parameter:
    """A parameter of the same shape, dtype and layout with a gradient, both without memory; ``param`` may be fake."""
    made = torch.nn.Parameter(torch.empty_like(param, device="meta"), requires_grad=param.requires_grad)
    made.grad = torch.empty_like(made)
    return made


def allocated_by_step(optimizer: Any) -> int:
    """Takes a step and counts the bytes at its peak, beyond those held before."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    with LiveBytes(_held(optimizer, params)) as live:
        before = live.now
        optimizer.step()
    return live.peak - before


def _held(optimizer: Any, params: Iterable[Tensor]) -> Iterable[Tensor]:
    for param in params:
        yield param
        if param.grad is not None:
            yield param.grad
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


class MadeUpValues(TorchDispatchMode):
    """Gives rules that read a sum between passes (LAMB, Prodigy, Amos) the number 1 in place of missing memory."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        from_meta = bool(args) and isinstance(args[0], Tensor) and args[0].is_meta
        if from_meta and function is torch.ops.aten._local_scalar_dense.default:
            return 1.0
        if from_meta and function is torch.ops.aten._to_copy.default and options.get("device") == torch.device("cpu"):
            return torch.ones(args[0].shape, dtype=options.get("dtype") or args[0].dtype)
        return function(*args, **options)
