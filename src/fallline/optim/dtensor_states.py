"""The states of a DTensor: kernels write to their local parts, users and checkpoints see DTensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fallline.distributed.dtensors import is_distributed, like, local_of
from fallline.lower.item import Place
from fallline.optim.states import MASTER, Piece, reduced_shape
from fallline.rules.annotations import State


def locals_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entries with the local parts of those that are DTensors."""
    return {key: local_of(value) if is_distributed(value) else value for key, value in entry.items()}


def as_dtensors(
    local: Mapping[str, Any], known: Mapping[str, Any], param: Tensor, piece: Piece, states: Mapping[str, State]
) -> dict[str, Any]:
    """The entries as DTensors; those that are ``known`` and have not moved stay the same objects.

    Scales of blocks and packed codes stay plain: a block may lie in two processes, and so may a byte of two codes.
    """
    found = dict(local)
    if not is_distributed(param):
        return found
    for key, value in local.items():
        before = known.get(key)
        if before is not None and is_distributed(before) and is_same_memory(local_of(before), value):
            found[key] = before
        elif (whole := whole_shape(key, param, piece, states)) is not None:
            shape, cut = whole
            found[key] = like(param, value, shape, cut)
    return found


def whole_shape(
    key: str, param: Tensor, piece: Piece, states: Mapping[str, State]
) -> tuple[tuple[int, ...], bool] | None:
    """The shape of a state in all processes together, and whether it is cut as the parameter is; None for one that no
    DTensor can hold."""
    name, _, part = key.partition(":")
    if key == MASTER or part == "int8":
        return tuple(param.shape), True
    state = states.get(name)
    if state is None or state.is_scalar or part:
        return None
    if state.shape is None:
        return tuple(param.shape), True
    place = piece.place if piece.place is not None else Place(tuple(piece.shape))
    return tuple(reduced_shape(state, place.shape)), piece.place is not None and place.cuts(state.space)


def is_same_memory(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.dtype == other.dtype
