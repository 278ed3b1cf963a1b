"""Which lowering runs a parameter, and why not a faster one."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fallline
from fallline.lower.batch import Item
from fallline.lower.native.launch import supports
from fallline.lower.native.library import NativeUnavailable
from fallline.optim.options import wanted_lowering
from fallline.optim.states import bare_item
from fallline.rules.program import Program


@dataclasses.dataclass(frozen=True)
class Choice:
    lowering: str
    reason: str


def choose_lowering(program: Program, item: Item, group: Mapping[str, Any]) -> Choice:
    """The lowering that the group's flags ask for, or the fastest one that is correct."""
    wanted = wanted_lowering(group)
    if wanted not in ("auto", "native", "native each"):
        return Choice(wanted, "asked for")
    obstacle = _obstacle(item)
    if obstacle is None:
        from fallline.lower.native.kernels import kernel

        try:
            kernel(program)
            return Choice("native", "fastest") if wanted == "auto" else Choice(wanted, "asked for")
        except NativeUnavailable as reason:
            _notice(str(reason))
            return Choice("foreach", f"no native kernel: {reason}")
    if wanted != "auto":
        raise ValueError(f"fused=True is not possible: {obstacle}; use fused=None for the fastest that is")
    return Choice("foreach", obstacle)


def check_possible(param: Tensor, group: Mapping[str, Any], name: str) -> None:
    """Raises if the group asks for a lowering that cannot step this parameter."""
    if wanted_lowering(group).startswith("native") and (obstacle := _obstacle(bare_item(param))):
        raise ValueError(f"fused=True is not possible for {name}: {obstacle}; use fused=None for the fastest that is")


def _obstacle(item: Item) -> str | None:
    """Why native cannot address this parameter."""
    if item.dtype == torch.float64:
        return "float64 has no native kernel"
    if len(item.shape) > 64:
        return "more than 64 axes"
    for operand in (*item.operands, *((item.echo,) if item.echo else ())):
        data = operand.data
        if data.device.type != "cpu":
            return f"the parameter is on {data.device}"
        if operand.lazy:
            return "it is a lazily conjugated or negated view"
        if operand.format is None and not supports(data):
            return f"{data.dtype} has no native kernel"
    return None


_noticed: set[str] = set()


def _notice(reason: str) -> None:
    """Once per reason and process: everything still works, only slower."""
    if reason not in _noticed:
        _noticed.add(reason)
        warnings.warn(
            f"fallline runs without its native kernels, through foreach: {reason} (`fallline doctor` says more)",
            RuntimeWarning,
            stacklevel=_users_level(),
        )


_NOT_THE_USERS = tuple(str(Path(folder)) + os.sep for folder in (*fallline.__path__, *torch.__path__))


def _users_level() -> int:
    """How many frames above the caller the user's line is, for a warning that points to it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame, level = frame.f_back, level + 1
    return level
