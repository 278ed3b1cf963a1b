"""The averages' entry in a checkpoint: plain dicts, numbers and tensors, checked before anything changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fallline.averaging.wrapper import Averaging

KEY = "averaging"
VERSION = 1


@dataclasses.dataclass
class Loaded:
    updates: int
    settings: dict[str, Any]
    kept: dict[Tensor, list[Tensor]]
    raw: dict[Tensor, Tensor] | None
    """In eval mode, the raw weights of the parameters that hold averages."""


def save(average: Averaging) -> dict[str, Any]:
    """The entry as a dict; tensors are not copied, as in torch's checkpoints."""
    numbers = {p: i for i, p in enumerate(_params(average))}
    raw = average._raw
    return {
        "version": VERSION,
        "kind": average.kind,
        "updates": average.updates,
        "settings": {name: getattr(average, name) for name in average.settings},
        # Parameters that were taken out of their group are left out, as in the wrapped optimizer's part.
        "kept": {numbers[p]: list(tensors) for p, tensors in average._kept().items() if p in numbers},
        "raw": None if raw is None else {numbers[p]: tensor for p, tensor in raw.items() if p in numbers},
    }


def read(average: Averaging, state_dict: Any) -> Loaded:
    """The content of a checkpoint, copied; raises if training cannot go on from it here."""
    saved = _entry(average, state_dict)
    params = _params(average)
    kept: dict[Tensor, list[Tensor]] = {}
    for number, tensors in saved["kept"].items():
        param = _param(params, number)
        kept[param] = [_fitted(t, param, average._kept_dtype(param), number) for t in tensors]
    raw: dict[Tensor, Tensor] | None = None
    if saved["raw"] is not None:
        raw = {}
        for number, tensor in saved["raw"].items():
            param = _param(params, number)
            raw[param] = _fitted(tensor, param, param.dtype, number)
    settings = {name: saved["settings"][name] for name in average.settings}
    average._check_loaded(settings, kept)
    return Loaded(int(saved["updates"]), settings, kept, raw)


def _entry(average: Averaging, state_dict: Any) -> Mapping[str, Any]:
    name = type(average).__name__
    saved = state_dict.get(KEY) if isinstance(state_dict, Mapping) else None
    if not isinstance(saved, Mapping):
        raise ValueError(
            f"{name} cannot load a checkpoint without averages (it has no {KEY!r}); "
            "to begin averaging from here, load it into the wrapped optimizer, .optimizer"
        )
    if saved.get("version") != VERSION:
        raise ValueError(f"these averages have format version {saved.get('version')!r}, this fallline reads {VERSION}")
    if saved.get("kind") != average.kind:
        raise ValueError(
            f"{name} cannot load averages of {saved.get('kind')!r}; load them into the class that wrote them"
        )
    expected: dict[str, Any] = {
        "updates": int,
        "settings": Mapping,
        "kept": Mapping,
        "raw": (Mapping, type(None)),
    }
    for key, types in expected.items():
        if not isinstance(saved.get(key), types):
            raise ValueError(f"the checkpoint's {KEY!r} has no valid {key!r}; it was not saved by state_dict()")
    for key, allowed in average.settings.items():
        if key not in saved["settings"]:
            raise ValueError(f"the checkpoint's {KEY!r} lacks the setting {key!r} of {name}")
        allowed.check(f"the checkpoint's {key}", saved["settings"][key])
    return saved


def _params(average: Averaging) -> list[Tensor]:
    """All parameters, numbered as torch numbers them."""
    return [p for group in average.param_groups for p in group["params"]]


def _param(params: list[Tensor], number: Any) -> Tensor:
    if not isinstance(number, int) or not 0 <= number < len(params):
        raise ValueError(f"the checkpoint has an average of parameter {number!r}; this optimizer has {len(params)}")
    return params[number]


def _fitted(value: Any, param: Tensor, dtype: torch.dtype, number: int) -> Tensor:
    shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
    if shape != tuple(param.shape):
        raise ValueError(
            f"the checkpoint's average of parameter {number} has shape {shape}, the parameter {tuple(param.shape)}"
        )
    return torch.empty_like(param, dtype=dtype, requires_grad=False).copy_(value)
