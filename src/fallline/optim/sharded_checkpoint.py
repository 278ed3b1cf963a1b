"""States of parameters in pieces, as checkpoints have them: DTensors that torch.distributed.checkpoint can save and
load, also with another number of processes.

Most states are such DTensors already.  The others become ones here, and are taken apart again: scales of blocks and
packed codes, as flat DTensors of those of the whole parameter, and the states of a matrix, which its owner has whole.
All processes call this, because they have to tell each other what they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fallline.distributed.dtensors import (
    flat_like,
    full_of,
    is_distributed,
    like,
    local_of,
    mesh_of,
    on_mesh_of,
    placed_like,
)
from fallline.formats import BlockFormat
from fallline.lower.item import Place
from fallline.lower.transfer import Owner
from fallline.optim.dtensor_states import whole_shape
from fallline.optim.states import MASTER, Piece, code_key, scale_key, stored_format
from fallline.rules.annotations import State

if TYPE_CHECKING:
    from fallline.optim.team import Team

States = Mapping[str, State]


def exported(
    entry: Mapping[str, Any], param: Tensor, piece: Piece, owner: Owner | None, states: States, team: Team
) -> dict[str, Any]:
    """The state of a parameter as a checkpoint has it."""
    if owner is not None:
        return _from_owner(entry, param, owner, states, team)
    found = dict(entry)
    if not is_distributed(param) or piece.place is None:
        return found
    for name, state in states.items():
        format = stored_format(name, state, entry)
        if format is None:
            continue
        scales = _joined_scales(entry[scale_key(name)], format, piece.place, piece.shape.numel(), team, param)
        found[scale_key(name)] = flat_like(param, scales)
        if format.bits != 8:
            codes = _joined_codes(entry[code_key(name, format)], format, piece.place, team, param)
            found[code_key(name, format)] = flat_like(param, codes)
    return found


def imported(
    entry: Mapping[str, Any], param: Tensor, here: Piece, owner: Owner | None, states: States, where: str
) -> tuple[dict[str, Any], Piece]:
    """The part of a checkpoint's state that is here, and the parameter as its states see it; a checkpoint of whole
    parameters is cut.  States that another process keeps have their shape only."""
    if here.place is None or owner is not None:
        entry = _whole(entry, param, where)
        if owner is None or owner.copied:
            whole = here
        else:
            whole = Piece(torch.empty(param.shape, dtype=param.dtype, device=here.param.device))
        if owner is None or owner.is_here:
            return entry, whole
        on_meta = {k: v.to("meta") if isinstance(v, Tensor) and v.ndim else v for k, v in entry.items()}
        return on_meta, Piece(torch.empty(param.shape, dtype=param.dtype, device="meta"))
    return _pieces_of(entry, param, here, states, where), here


def _pieces_of(entry: Mapping[str, Any], param: Tensor, piece: Piece, states: States, where: str) -> dict[str, Any]:
    found = {}
    for key, value in entry.items():
        if isinstance(value, Tensor) and value.ndim > 0 and _is_state(key, states):
            _check_mesh(value, param, f"{where}: {key}")
            value = _cut(key, value, entry, param, piece, states)
        found[key] = value
    return found


def _whole(entry: Mapping[str, Any], param: Tensor, where: str) -> dict[str, Any]:
    """A checkpoint's state with whole tensors."""
    found = {}
    for key, value in entry.items():
        if is_distributed(value):
            _check_mesh(value, param, f"{where}: {key}")
            value = full_of(value)
        found[key] = value
    return found


def _check_mesh(value: Tensor, param: Tensor, what: str) -> None:
    """Raises if a DTensor was cut for other processes."""
    if is_distributed(value) and is_distributed(param) and not on_mesh_of(param, value):
        raise ValueError(
            f"{what} is cut for {mesh_of(value).size()} processes, the parameter for {mesh_of(param).size()}: "
            "a file of torch.save fits the number of processes that wrote it; save with torch.distributed.checkpoint, "
            "which loads with any number"
        )


def _is_state(key: str, states: States) -> bool:
    return key == MASTER or key.partition(":")[0] in states


def _cut(key: str, value: Tensor, entry: Mapping[str, Any], param: Tensor, piece: Piece, states: States) -> Tensor:
    """The part of one tensor that is here."""
    assert piece.place is not None
    name, _, part = key.partition(":")
    format = stored_format(name, states[name], entry) if name in states else None
    if format is not None and part in ("scale", "int4"):
        unit = format.block if part == "scale" else 2
        whole = full_of(value)
        first, count = piece.place.first, piece.shape.numel()
        return whole[first // unit : -(-(first + count) // unit) if count else first // unit].clone()
    shape, cut = whole_shape(key, param, piece, states) or ((), False)
    if is_distributed(value):
        return local_of(placed_like(value, param, cut))
    if tuple(value.shape) == shape and cut:
        return value.narrow(piece.place.axis, piece.place.start, piece.param.shape[piece.place.axis])
    return value


def _joined_scales(scale: Tensor, format: BlockFormat, place: Place, count: int, team: Team, param: Tensor) -> Tensor:
    """The scales of all blocks of the whole parameter.  Of a block that goes on in another piece, the piece in which it
    begins adds the scale; as whole numbers, because a scale of -0.0 has a meaning."""
    numel = torch.Size(place.shape).numel()
    bits = torch.zeros(-(-numel // format.block), dtype=torch.int32, device=scale.device)
    begins = -(-place.first // format.block)
    end = -(-(place.first + count) // format.block) if count else begins
    if end > begins:
        bits[begins:end] = scale.view(torch.int32)[begins - place.first // format.block :]
    team.sum_of_pieces(bits, param)
    return bits.view(torch.float32)


def _joined_codes(codes: Tensor, format: BlockFormat, place: Place, team: Team, param: Tensor) -> Tensor:
    """The packed codes of the whole parameter.  Halves of bytes that belong to another piece are 0 here."""
    numel = torch.Size(place.shape).numel()
    whole = torch.zeros(format.code_shape(place.shape), dtype=torch.uint8, device=codes.device)
    assert whole.numel() == (numel + 1) // 2
    whole[place.first // 2 : place.first // 2 + codes.numel()] = codes
    team.sum_of_pieces(whole, param)
    return whole


def _from_owner(entry: Mapping[str, Any], param: Tensor, owner: Owner, states: States, team: Team) -> dict[str, Any]:
    """The tensor that the owner has, in all processes: cut like the parameter, or flat."""
    found = dict(entry)
    for key in sorted(key for key in entry if _is_state(key, states)):
        value = entry[key]
        if key in states and states[key].is_scalar:
            continue
        whole = team.from_owner(value, owner)
        if not is_distributed(param):
            found[key] = whole
        elif whole.shape == param.shape:
            start, length = owner.ranges[team.ranks.at[owner.mesh_axis]]
            found[key] = like(param, whole.narrow(owner.axis, start, length).clone(), tuple(param.shape), True)
        else:
            found[key] = flat_like(param, whole)
    return found
