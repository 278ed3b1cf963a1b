"""A parameter's states: how they are allocated, named and found again."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.formats import BlockFormat, applies, block_format
from fallline.lower.batch import HALF, Item, Operand, real_shape, real_view
from fallline.optim.layout import overlaps_itself
from fallline.rules.annotations import PARAM, State
from fallline.rules.graph import Space

MASTER = "master"
STEP = "step"


class Watched(dict[str, Any]):
    """A parameter's state.  Replacing an entry from outside must reach the kernels, which hold pointers."""

    def __init__(self, values: Mapping[str, Any], changed: Callable[[], None]):
        super().__init__(values)
        self._changed = changed

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._changed()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._changed()

    def __ior__(self, other: Any) -> Watched:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._changed()
        return super().setdefault(key, default)

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def popitem(self) -> tuple[str, Any]:
        self._changed()
        return super().popitem()

    def clear(self) -> None:
        super().clear()
        self._changed()

    def replace(self, values: Mapping[str, Any]) -> None:
        """From inside, by who knows what the kernels hold."""
        super().clear()
        super().update(values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied and pickled as what it is to everyone else.
        return dict, (dict(self),)


class WatchedStates(defaultdict[Tensor, Any]):
    """All states by parameter, as torch keeps them; tells when an entry is replaced."""

    def __init__(self, changed: Callable[[], None]):
        super().__init__(dict)
        self._changed = changed

    def __setitem__(self, key: Tensor, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed()

    def __delitem__(self, key: Tensor) -> None:
        super().__delitem__(key)
        self._changed()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._changed()

    def __ior__(self, other: Any) -> WatchedStates:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, key: Tensor, default: Any = None) -> Any:
        self._changed()
        return super().setdefault(key, default)

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def popitem(self) -> tuple[Tensor, Any]:
        self._changed()
        return super().popitem()

    def clear(self) -> None:
        super().clear()
        self._changed()

    def __reduce__(self) -> tuple[Any, ...]:
        # As what torch has there.
        return defaultdict, (dict,), None, None, iter(self.items())


def computing_dtype(param: Tensor) -> torch.dtype:
    """What a parameter's step is computed in."""
    return torch.float64 if param.dtype in (torch.float64, torch.complex128) else torch.float32


def state_format(state: State, state_dtype: str, param: Tensor) -> BlockFormat | torch.dtype:
    """How a full-size state of this parameter is stored."""
    dtype = computing_dtype(param)
    if not state.low_bit or dtype == torch.float64 or state_dtype == "float32":
        return dtype
    if state_dtype == "bfloat16":
        return torch.bfloat16
    elements = param.numel() * (2 if param.is_complex() else 1)
    return block_format(state_dtype, state.kind) if applies(elements) else dtype


def code_key(name: str, format: BlockFormat) -> str:
    """Codes have a key of their own: torch would silently go on from codes named like the state."""
    return f"{name}:{format.name}"


def scale_key(name: str) -> str:
    return f"{name}:scale"


def reduced_shape(state: State, param: Tensor) -> tuple[int, ...]:
    shape = real_shape(param)
    if state.space == Space.ROW:
        return (*shape[:-1], 1)
    if state.space == Space.COL:
        return (*shape[:-2], 1, shape[-1])
    return (shape[0], *(1 for _ in shape[1:]))


def new_state(name: str, state: State, param: Tensor, state_dtype: str, init: float) -> dict[str, Tensor]:
    """The entries of one state at its start."""
    dtype = computing_dtype(param)
    if state.shape is not None:
        return {name: torch.full(reduced_shape(state, param), init, dtype=dtype, device=param.device)}
    if state.init == PARAM:
        return {name: param.detach().to(_complex_of(dtype) if param.is_complex() else dtype, copy=True)}
    format = state_format(state, state_dtype, param)
    if isinstance(format, BlockFormat):
        view = real_view(param.detach())
        if init == 0.0:  # without the float32 tensor in between
            codes, scale = format.zeros(view.shape, param.device)
        else:
            codes, scale = format.encode(torch.full_like(view, init, dtype=torch.float32))
        return {code_key(name, format): codes, scale_key(name): scale}
    if param.is_complex():
        return {name: torch.view_as_complex(torch.full_like(real_view(param), init, dtype=dtype))}
    return {name: torch.full_like(param, init, dtype=format, memory_format=torch.preserve_format)}


def fitted(
    name: str, state: State, entry: Mapping[str, Any], param: Tensor, state_dtype: str, where: str
) -> dict[str, Tensor] | None:
    """An existing state's tensors, as its group wants them stored; None if there is none.

    What is already so stays the same tensors; what was loaded or replaced by the user is converted, or
    refused if it cannot be of this parameter.
    """
    if state.shape is not None:
        if entry.get(name) is None:
            return None
        value = _dense(name, entry[name], reduced_shape(state, param), False, where)
        return {name: value.to(param.device, computing_dtype(param)).contiguous()}
    wanted = state_format(state, state_dtype, param)
    stored = stored_format(name, state, entry)
    if stored is None:
        if scale_key(name) in entry:
            raise ValueError(f"{where} has {scale_key(name)!r}, but no codes that it belongs to; remove it or add them")
        if entry.get(name) is None:
            return None
        value = _dense(name, entry[name], param.shape, param.is_complex(), where).to(param.device)
    else:
        codes, scale = _codes(name, stored, entry, param, where)
        if wanted == stored:
            return {code_key(name, stored): codes, scale_key(name): scale}
        value = stored.decode(codes, scale, real_view(param.detach()).shape)
        value = torch.view_as_complex(value) if param.is_complex() else value
    if isinstance(wanted, BlockFormat):
        codes, scale = wanted.encode(real_view(value).to(torch.float32))
        return {code_key(name, wanted): codes, scale_key(name): scale}
    dtype = _complex_of(wanted) if param.is_complex() else wanted
    if value.dtype != dtype:
        value = torch.empty_like(param, dtype=dtype, memory_format=torch.preserve_format).copy_(value)
    return {name: value}


def _complex_of(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def fitted_master(entry: Mapping[str, Any], param: Tensor, where: str) -> Tensor:
    """Existing master weights."""
    return _dense(MASTER, entry[MASTER], param.shape, False, where).to(param.device, torch.float32)


def follow(master: Tensor, param: Tensor) -> None:
    """Takes over the weights that somebody else has set since the last step; others keep their precision."""
    given = param.detach()
    changed = (master.to(given.dtype) != given) & ~(master.isnan() & given.isnan())
    if bool(changed.any()):
        master.copy_(torch.where(changed, given.float(), master))


def keys_of(name: str) -> tuple[str, ...]:
    """Every key under which a state may be stored."""
    return (name, f"{name}:int8", f"{name}:int4", scale_key(name))


def _dense(name: str, value: Any, shape: Sequence[int], is_complex: bool, where: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{where}: {name} is of type {type(value).__name__}; it should be a tensor")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(
            f"{where}: {name} has shape {tuple(value.shape)}; for this parameter it should be {tuple(shape)}"
        )
    if not (value.is_floating_point() or value.is_complex()) or value.is_complex() != is_complex:
        kind = "complex" if is_complex else "floating point"
        raise ValueError(f"{where}: {name} has dtype {value.dtype}; it should be {kind}")
    if value.layout != torch.strided:
        value = value.to_dense()
    # A kernel writes to its memory: values must be what is there, and each element have its own.
    value = (value.detach() if value.requires_grad else value).resolve_conj().resolve_neg()
    return value.clone(memory_format=torch.contiguous_format) if overlaps_itself(value) else value


def _codes(
    name: str, format: BlockFormat, entry: Mapping[str, Any], param: Tensor, where: str
) -> tuple[Tensor, Tensor]:
    shape = real_view(param.detach()).shape
    found = []
    for key, dtype, expected in (
        (code_key(name, format), format.code_dtype, format.code_shape(shape)),
        (scale_key(name), torch.float32, format.scale_shape(shape)),
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


def bare_item(param: Tensor) -> Item:
    """A parameter without states: enough to choose a lowering."""
    lazy = param.is_conj() or param.is_neg()
    view = param.detach() if lazy else real_view(param.detach())
    shape = real_view(view).shape if lazy else view.shape
    return Item(shape, computing_dtype(param), Operand(view, lazy=lazy), {}, {})


def build_item(
    states: Mapping[str, State],
    param: Tensor,
    entry: Mapping[str, Any],
    group: Mapping[str, Any],
    number: int,
) -> Item:
    """A parameter with its states, as the lowerings take it."""
    bare = bare_item(param)
    view = bare.param
    random = bool(group["stochastic_rounding"]) and view.data.dtype in HALF
    operand = dataclasses.replace(view, stochastic=random)
    echo = None
    if MASTER in entry:
        operand, echo = Operand(entry[MASTER]), view
    operands: dict[str, Operand] = {}
    small: dict[str, Tensor] = {}
    for slot, (name, state) in enumerate(states.items(), start=1):
        if state.is_scalar:
            continue
        if state.shape is not None:
            small[name] = entry[name]
            continue
        format = stored_format(name, state, entry)
        if format is not None:
            operands[name] = Operand(entry[code_key(name, format)], entry[scale_key(name)], format)
        else:
            tensor = real_view(entry[name])
            # A second moment rounded to nearest in bfloat16 would freeze at β₂ = 0.999.
            operands[name] = Operand(tensor, stochastic=tensor.dtype in HALF, slot=slot)
    return Item(bare.shape, bare.dtype, operand, operands, small, echo, number)


def stored_format(name: str, state: State, entry: Mapping[str, Any]) -> BlockFormat | None:
    """The low-bit format in which an entry holds this state, if any."""
    for candidate in ("int8", "int4"):
        if f"{name}:{candidate}" in entry:
            return block_format(candidate, state.kind)
    return None
