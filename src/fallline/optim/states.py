"""A parameter's states: how they are allocated, named and found again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fallline.formats import BlockFormat, applies, block_format
from fallline.lower.batch import HALF, Item, Operand
from fallline.rules.annotations import PARAM, State
from fallline.rules.graph import Space
from fallline.rules.rule import Rule

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

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def clear(self) -> None:
        super().clear()
        self._changed()

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

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def clear(self) -> None:
        super().clear()
        self._changed()

    def __reduce__(self) -> tuple[Any, ...]:
        plain: defaultdict[Tensor, Any] = defaultdict(dict)
        plain.update(self)
        return plain.__reduce__()


def computing_dtype(param: Tensor) -> torch.dtype:
    """What a parameter's step is computed in."""
    return torch.float64 if param.dtype in (torch.float64, torch.complex128) else torch.float32


def real_view(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of reals; what is lazily conjugated or negated is resolved first."""
    if not tensor.is_complex():
        return tensor.resolve_neg() if tensor.is_neg() else tensor
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def state_format(state: State, state_dtype: str, param: Tensor) -> BlockFormat | torch.dtype:
    """How a full-size state of this parameter is stored."""
    dtype = computing_dtype(param)
    if state.shape is not None or state.kind == "weights" or dtype == torch.float64 or state_dtype == "float32":
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


def reduced_shape(state: State, shape: torch.Size) -> tuple[int, ...]:
    if state.space == Space.ROW:
        return (*shape[:-1], 1)
    if state.space == Space.COL:
        return (*shape[:-2], 1, shape[-1])
    return (shape[0], *(1 for _ in shape[1:]))


def new_state(name: str, state: State, param: Tensor, state_dtype: str, init: float) -> dict[str, Tensor]:
    """The entries of one state at its start."""
    dtype = computing_dtype(param)
    if state.shape is not None:
        return {name: torch.full(reduced_shape(state, param.shape), init, dtype=dtype, device=param.device)}
    if state.init == PARAM:
        wide = torch.complex128 if dtype == torch.float64 else torch.complex64
        return {name: param.detach().to(wide if param.is_complex() else dtype, copy=True)}
    format = state_format(state, state_dtype, param)
    if isinstance(format, BlockFormat):
        codes, scale = format.encode(torch.full_like(real_view(param), init, dtype=torch.float32).contiguous())
        return {code_key(name, format): codes, scale_key(name): scale}
    if param.is_complex():
        wide = torch.complex128 if dtype == torch.float64 else torch.complex64
        return {name: torch.view_as_complex(torch.full_like(real_view(param), init, dtype=dtype))}
    return {name: torch.full_like(param, init, dtype=format, memory_format=torch.preserve_format)}


def build_item(rule: Rule, states: Mapping[str, State], param: Tensor, entry: Mapping[str, Any], group: Mapping[str, Any], number: int) -> Item:  # fmt: skip
    """A parameter with its states, as the lowerings take it."""
    view = real_view(param.detach())
    random = bool(group["stochastic_rounding"]) and view.dtype in HALF
    echo = None
    param_operand = Operand(view, stochastic=random)
    if MASTER in entry:
        param_operand, echo = Operand(entry[MASTER]), Operand(view)
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
    return Item(view.shape, computing_dtype(param), param_operand, operands, small, echo, number)


def stored_format(name: str, state: State, entry: Mapping[str, Any]) -> BlockFormat | None:
    """The low-bit format in which an entry holds this state, if any."""
    for candidate in ("int8", "int4"):
        if f"{name}:{candidate}" in entry:
            return block_format(candidate, state.kind)
    return None
