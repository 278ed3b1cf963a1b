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
from fallline.lower.catalogue import find_lowering, lowerings
from fallline.lower.chain import missing
from fallline.lower.executor import Lowering
from fallline.lower.item import Item
from fallline.optim.options import wanted_lowering
from fallline.optim.states import Piece, bare_item
from fallline.rules.program import Program


@dataclasses.dataclass(frozen=True)
class Choice:
    lowering: Lowering
    reason: str
    """Why this one, or why not a faster one."""


def choose_lowering(program: Program, item: Item, group: Mapping[str, Any]) -> Choice:
    """The lowering that the group's flags ask for, or the fastest one that is correct."""
    wanted = wanted_lowering(group)
    if wanted is None:
        return _fastest(program, item, [lowering for lowering in lowerings() if lowering.automatic])
    lowering = find_lowering(wanted.name)
    if (obstacle := lowering.obstacle(item)) is not None:
        if wanted.strict:
            raise ValueError(f"{wanted.asked} is not possible: {obstacle}; {wanted.remedy}")
        instead = _fastest(program, item, [other for other in lowerings() if other.automatic]).lowering
        _warn_once(lowering, f"{wanted.asked}: {obstacle}, so that {instead.name} runs instead; {wanted.remedy}")
        return Choice(instead, obstacle)
    if (lacking := missing(lowering, program)) is None:
        return Choice(lowering, "asked for")
    return Choice(_next_best(program, item, lowering, lacking).lowering, _without(lowering, lacking))


def _fastest(program: Program, item: Item, candidates: list[Lowering]) -> Choice:
    """The first one that can, with the reason why the one before it cannot."""
    reason = "fastest"
    for lowering in candidates:
        if (obstacle := lowering.obstacle(item)) is not None:
            reason = obstacle
        elif (lacking := missing(lowering, program)) is not None:
            _notice(lowering, lacking)
            reason = _without(lowering, lacking)
        else:
            return Choice(lowering, reason)
    raise ValueError(f"no lowering can step this parameter: {reason}")


def _next_best(program: Program, item: Item, lowering: Lowering, lacking: str) -> Choice:
    _notice(lowering, lacking)
    others = [other for other in lowerings() if other.automatic and missing(other, program) is None]
    return _fastest(program, item, others)


def _without(lowering: Lowering, lacking: str) -> str:
    return f"no {lowering.kernels} kernel: {lacking}"


def check_possible(param: Tensor, group: Mapping[str, Any], name: str) -> None:
    """Raises if the group asks for a lowering that cannot step this parameter.  A parameter on the meta device has no
    memory yet: it is looked at again when it is stepped."""
    wanted = wanted_lowering(group)
    if wanted is None or not wanted.strict or param.device.type == "meta":
        return
    if (obstacle := find_lowering(wanted.name).obstacle(bare_item(Piece(param)))) is not None:
        raise ValueError(f"{wanted.asked} is not possible for {name}: {obstacle}; {wanted.remedy}")


def _notice(lowering: Lowering, lacking: str) -> None:
    _warn_once(
        lowering,
        f"fallline runs without its {lowering.kernels} kernels, through foreach: {lacking} "
        "(`fallline doctor` says more)",
    )


def _warn_once(lowering: Lowering, message: str) -> None:
    """Once per message and process: everything still works, only slower."""
    if not lowering.was_told(message):
        warnings.warn(message, RuntimeWarning, stacklevel=users_level())


_NOT_THE_USERS = tuple(str(Path(folder)) + os.sep for folder in (*fallline.__path__, *torch.__path__))


def users_level() -> int:
    """How many frames above the caller the user's line is, for a warning that points to it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame, level = frame.f_back, level + 1
    return level
