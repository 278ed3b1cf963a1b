"""The tensors of a cell, and the optimizers that step them: all share parameters, gradients and states."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import Parameter

from fallline.lower.catalogue import find_lowering
from fallline.measure import machine
from fallline.measure.clock import seconds_of
from fallline.step.implementations import Missing, build, does_not_work, named
from fallline.step.plan import PART, Arm, Cell
from fallline.step.results import ArmRecord

BLOCK = 1 << 20
"""The number of random numbers drawn; larger tensors repeat them, which makes no difference to kernels."""
Pool = dict[tuple[int, str, torch.dtype], torch.Tensor]
"""(tensor, state, format) → the memory that all arms use."""


def tensors(cell: Cell, seed: int) -> list[Parameter]:
    """Parameters with gradients of the usual sizes, the same for every arm."""
    generator = torch.Generator().manual_seed(seed)
    block = torch.randn(BLOCK, generator=generator)
    dtype = getattr(torch, cell.dtype)
    return [_filled(shape, dtype, block) for shape in cell.shapes]


def _filled(shape: tuple[int, ...], dtype: torch.dtype, block: torch.Tensor) -> Parameter:
    count = math.prod(shape)
    param = Parameter(torch.empty(shape, dtype=dtype))
    param.grad = torch.empty(shape, dtype=dtype)
    for target, scale in ((param.data.view(-1), 0.02), (param.grad.view(-1), 1e-3)):
        for start in range(0, count, BLOCK):
            part = target[start : start + BLOCK]
            part.copy_(block[: len(part)]).mul_(scale)
    return param


def arms_with_room(cell: Cell, records: dict[str, ArmRecord]) -> list[Arm]:
    """The arms for which there is enough memory; ask this before any memory is taken."""
    found = []
    for arm in cell.arms:
        try:
            check_room(cell, arm)
            found.append(arm)
        except Missing as reason:
            records[arm.label].missing = str(reason)
    return found


def build_arms(
    arms: Sequence[Arm], params: Sequence[Parameter], records: dict[str, ArmRecord], dtype: str = "float32"
) -> dict[str, Any]:
    """The optimizers of all arms that work, after one step; states of one format share memory among them."""
    made: dict[str, Any] = {}
    pool: Pool = {}
    elements = sum(param.numel() for param in params)
    for arm in arms:
        record = records[arm.label]
        of_one = arm.bytes(dtype)
        record.facts["bytes_moved"], record.facts["bytes_once"] = of_one.moved * elements, of_one.once * elements
        record.facts["states"] = arm.states_of(dtype)
        try:
            optimizer = build(arm.implementation, arm.optimizer, params, dict(arm.options), arm.state_dtype)
            record.facts["first_seconds"] = _make_states(arm, optimizer, params, pool)
        except Missing as reason:
            record.missing = str(reason)
            continue
        made[arm.label] = optimizer
    return made


def check_room(cell: Cell, arm: Arm) -> None:
    """Refuses an arm whose temporaries would not fit beside the memory of the cell."""
    free, wanted = machine.available_memory(), cell.needed_by(arm)
    if free is None:
        return
    if wanted > free:
        raise Missing(f"does not fit: needs {wanted / 1e9:.1f} GB, {free / 1e9:.1f} GB are available")


def _make_states(arm: Arm, optimizer: Any, params: Sequence[Parameter], pool: Pool) -> float:
    """Steps until all states exist, moves them into the shared memory, and returns the time of the first step.

    This happens in parts of ``PART`` elements, so that only one part is held twice and temporaries stay small.
    """
    grads = [param.grad for param in params]
    first = 0.0
    try:
        for part in _parts(params):
            for index, param in enumerate(params):
                param.grad = grads[index] if index in part else None
            seconds = _first_step(arm, optimizer)
            first = first or seconds
            share_states(optimizer, params, pool, part)
    finally:
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
    return first


def _parts(params: Sequence[Parameter]) -> list[range]:
    found, start, held = [], 0, 0
    for index, param in enumerate(params):
        held += param.numel()
        if held >= PART or index == len(params) - 1:
            found.append(range(start, index + 1))
            start, held = index + 1, 0
    return found


def _first_step(arm: Arm, optimizer: Any) -> float:
    implementation = named(arm.implementation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seconds = seconds_of(optimizer.step)
        except Exception as error:
            # A compiler may be missing where the library's kernels, which do not need it, work.
            if implementation.ours and not implementation.compiles:
                raise
            raise does_not_work(error) from error
    if implementation.native:
        _check_native(optimizer)
    return seconds


def _check_native(optimizer: Any) -> None:
    """Refuses an optimizer that has no kernel for its options and went on without, because the column promises one."""
    for part in optimizer.explain().parts:
        if find_lowering(part.lowering).kernels != "native":
            raise Missing(part.reason)


def share_states(
    optimizer: Any,
    params: Sequence[Parameter],
    pool: Pool,
    part: Sequence[int],
) -> None:
    """Gives all arms the same memory, because the distance of states from parameters can cost half the bandwidth."""
    for index in part:
        param = params[index]
        state = optimizer.state[param]
        for key, value in list(state.items()):
            if type(value) is not torch.Tensor or value.shape != param.shape or key == "step":
                continue
            shared = pool.setdefault((index, key, value.dtype), value)
            if shared is not value:
                state[key] = shared
