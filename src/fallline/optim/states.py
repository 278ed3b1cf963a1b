"""A parameter's states: how they are stored, allocated, named and found again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from fallline.formats import BlockFormat, applies, block_format
from fallline.lower.item import HALF, Item, Operand, Place, real_shape, real_view
from fallline.optim.layout import overlaps_itself
from fallline.rules.annotations import PARAM, State
from fallline.rules.blocks import Squares
from fallline.rules.space import Space

MASTER = "master"


@dataclasses.dataclass(frozen=True, eq=False)
class Piece:
    """A parameter, or the piece of one that is here, as states see it."""

    param: Tensor
    place: Place | None = None
    counted: bool = True
    """Whether reductions over all parameters count it; of equal copies in several processes, they count one."""

    @property
    def shape(self) -> torch.Size:
        return real_shape(self.param)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that its step is computed in."""
        return torch.float64 if self.param.dtype in (torch.float64, torch.complex128) else torch.float32

    @property
    def whole_numel(self) -> int:
        """How many elements the whole parameter has."""
        return prod(self.shape if self.place is None else self.place.shape)

    @property
    def first(self) -> int:
        """The logical index of its first element in the whole parameter."""
        return 0 if self.place is None else self.place.first

    def check(self, name: str, group: Mapping[str, Any]) -> None:
        """Raises if a piece cannot be stored as its group wants: blocks and random bits follow the logical order."""
        if self.place is None or self.place.is_range:
            return
        for option in ("state_dtype", "stochastic_rounding"):
            if group[option] not in ("float32", False):
                raise ValueError(
                    f"{option}={group[option]!r} is not possible for {name}, cut along axis {self.place.axis}: "
                    "cut it along its first axis, or keep its states in float32"
                )


def state_format(state: State, state_dtype: str, piece: Piece) -> BlockFormat | torch.dtype:
    """How a full-size state of this parameter is stored."""
    if not state.low_bit or piece.dtype == torch.float64 or state_dtype == "float32":
        return piece.dtype
    if state_dtype == "bfloat16":
        return torch.bfloat16
    return block_format(state_dtype, state.kind) if applies(piece.whole_numel) else piece.dtype


def code_key(name: str, format: BlockFormat) -> str:
    """Codes have a key of their own: torch would silently go on from codes named like the state."""
    return f"{name}:{format.name}"


def scale_key(name: str) -> str:
    return f"{name}:scale"


def reduced_shape(state: State, shape: Sequence[int]) -> tuple[int, ...]:
    if isinstance(state.shape, Squares):
        return (state.shape.numel(shape),)
    if state.space == Space.ROW:
        return (*shape[:-1], 1)
    if state.space == Space.COL:
        return (*shape[:-2], 1, shape[-1])
    return (shape[0], *(1 for _ in shape[1:]))


def new_state(name: str, state: State, piece: Piece, state_dtype: str, init: float) -> dict[str, Tensor]:
    """The entries of one state at its start."""
    param, dtype = piece.param, piece.dtype
    if state.shape is not None:
        return {name: torch.full(reduced_shape(state, piece.shape), init, dtype=dtype, device=param.device)}
    if state.init == PARAM:
        return {name: param.detach().to(_complex_of(dtype) if param.is_complex() else dtype, copy=True)}
    format = state_format(state, state_dtype, piece)
    if isinstance(format, BlockFormat):
        if init == 0.0:  # without the float32 tensor in between
            codes, scale = format.zeros(piece.shape, param.device, piece.first)
        else:
            values = torch.full(piece.shape, init, dtype=torch.float32, device=param.device)
            codes, scale = format.encode(values, piece.first)
        return {code_key(name, format): codes, scale_key(name): scale}
    if param.is_complex():
        return {name: torch.view_as_complex(torch.full_like(real_view(param), init, dtype=dtype))}
    return {name: torch.full_like(param, init, dtype=format, memory_format=torch.preserve_format)}


def elsewhere(name: str, state: State, param: Tensor, state_dtype: str) -> dict[str, Tensor]:
    """The entries of a state that another process has: their shapes, without memory."""
    return new_state(name, state, Piece(torch.empty(param.shape, dtype=param.dtype, device="meta")), state_dtype, 0.0)


def fitted(
    name: str, state: State, entry: Mapping[str, Any], piece: Piece, state_dtype: str, where: str
) -> dict[str, Tensor] | None:
    """An existing state's tensors, as its group wants them stored; None if there is none.

    Tensors that are already so stay the same; those that were loaded, or replaced by the user, are converted, or
    refused if they cannot be of this parameter.
    """
    param = piece.param
    if state.shape is not None:
        if entry.get(name) is None:
            return None
        value = _dense(name, entry[name], reduced_shape(state, piece.shape), False, param.device, where)
        return {name: value.to(param.device, piece.dtype).contiguous()}
    wanted = state_format(state, state_dtype, piece)
    stored = stored_format(name, state, entry)
    if stored is None:
        if scale_key(name) in entry:
            raise ValueError(f"{where} has {scale_key(name)!r}, but no codes that it belongs to; remove it or add them")
        if entry.get(name) is None:
            return None
        value = _dense(name, entry[name], param.shape, param.is_complex(), param.device, where).to(param.device)
    else:
        codes, scale = _codes(name, stored, entry, piece, where)
        if wanted == stored:
            return {code_key(name, stored): codes, scale_key(name): scale}
        value = stored.decode(codes, scale, piece.shape, piece.first)
        value = torch.view_as_complex(value) if param.is_complex() else value
    if isinstance(wanted, BlockFormat):
        codes, scale = wanted.encode(real_view(value).to(torch.float32), piece.first)
        return {code_key(name, wanted): codes, scale_key(name): scale}
    dtype = _complex_of(wanted) if param.is_complex() else wanted
    if value.dtype != dtype:
        value = torch.empty_like(param, dtype=dtype, memory_format=torch.preserve_format).copy_(value)
    return {name: value}


def _complex_of(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def fitted_master(entry: Mapping[str, Any], param: Tensor, where: str) -> Tensor:
    """Existing master weights."""
    return _dense(MASTER, entry[MASTER], param.shape, False, param.device, where).to(param.device, torch.float32)


def keys_of(name: str) -> tuple[str, ...]:
    """Every key under which a state may be stored."""
    return (name, f"{name}:int8", f"{name}:int4", scale_key(name))


def _dense(name: str, value: Any, shape: Sequence[int], is_complex: bool, device: torch.device, where: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{where}: {name} is of type {type(value).__name__}; it should be a tensor")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(
            f"{where}: {name} has shape {tuple(value.shape)}; for this parameter it should be {tuple(shape)}"
        )
    if not (value.is_floating_point() or value.is_complex()) or value.is_complex() != is_complex:
        kind = "complex" if is_complex else "floating point"
        raise ValueError(f"{where}: {name} has dtype {value.dtype}; it should be {kind}")
    if value.is_meta and device.type != "meta":
        raise ValueError(
            f"{where}: {name} is in another process, which steps this matrix; a copy of an optimizer that is split "
            "over processes needs split_over() too, and then load_state_dict() of what state_dict() has returned"
        )
    if value.layout != torch.strided:
        value = value.to_dense()
    # A kernel writes to its memory: values must be what is there, and each element have its own.
    value = (value.detach() if value.requires_grad else value).resolve_conj().resolve_neg()
    return value.clone(memory_format=torch.contiguous_format) if overlaps_itself(value) else value


def _codes(name: str, format: BlockFormat, entry: Mapping[str, Any], piece: Piece, where: str) -> tuple[Tensor, Tensor]:
    param, shape, first = piece.param, piece.shape, piece.first
    found = []
    for key, dtype, expected in (
        (code_key(name, format), format.code_dtype, format.code_shape(shape, first)),
        (scale_key(name), torch.float32, format.scale_shape(shape, first)),
    ):
        value = entry.get(key)
        if not isinstance(value, Tensor):
            raise ValueError(f"{where} lacks {key!r}, without which its {format.name} codes mean nothing")
        if value.dtype != dtype or tuple(value.shape) != expected:
            raise ValueError(
                f"{where}: {key} is {value.dtype} of shape {tuple(value.shape)}; it should be {dtype} of "
                f"shape {expected}, as the parameter's shape is {tuple(param.shape)}"
            )
        found.append(value.to(param.device).contiguous())
    return found[0], found[1]


def bare_item(piece: Piece, number: int = 0) -> Item:
    """A parameter without states: enough to choose a lowering."""
    param = piece.param.detach()
    lazy = param.is_conj() or param.is_neg()
    view = param if lazy else real_view(param)
    operand = Operand(view, lazy=lazy, first=piece.first)
    return Item(piece.shape, piece.dtype, operand, {}, {}, number=number, place=piece.place, counted=piece.counted)


def build_item(
    states: Mapping[str, State], piece: Piece, entry: Mapping[str, Any], group: Mapping[str, Any], number: int
) -> Item:
    """A parameter with its states, as the lowerings take it."""
    item = bare_item(piece, number)
    view, first = item.param, piece.first
    if MASTER in entry:
        item.param, item.low_precision_copy = Operand(entry[MASTER], first=first), view
    elif group["stochastic_rounding"] and view.data.dtype in HALF:
        item.param = dataclasses.replace(view, stochastic=True)
    for slot, (name, state) in enumerate(states.items(), start=1):
        if state.is_scalar:
            continue
        if state.shape is not None:
            item.small[name] = entry[name]
            continue
        format = stored_format(name, state, entry)
        if format is not None:
            item.states[name] = Operand(entry[code_key(name, format)], entry[scale_key(name)], format, first=first)
        else:
            tensor = real_view(entry[name])
            # A second moment rounded to nearest in bfloat16 would freeze at β₂ = 0.999.
            item.states[name] = Operand(tensor, stochastic=tensor.dtype in HALF, slot=slot, first=first)
    return item


def stored_format(name: str, state: State, entry: Mapping[str, Any]) -> BlockFormat | None:
    """The low-bit format in which an entry holds this state, if any."""
    for candidate in ("int8", "int4"):
        if f"{name}:{candidate}" in entry:
            return block_format(candidate, state.kind)
    return None
