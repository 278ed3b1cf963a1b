"""Checkpoints: exchanged with torch.optim both ways, validated before anything changes, formats converted.

A checkpoint is torch's dictionary of parameter groups and states, of plain dicts, numbers and tensors only,
with one entry more that says what wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fallline.formats import BlockFormat, block_format
from fallline.optim.options import IMPLEMENTATION
from fallline.optim.states import (
    MASTER,
    STEP,
    WatchedStates,
    code_key,
    computing_dtype,
    real_view,
    reduced_shape,
    scale_key,
    state_format,
)
from fallline.rules.annotations import State

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer

HEADER = "fallline"
VERSION = 1


def save(optimizer: RuleOptimizer, plain: dict[str, Any]) -> dict[str, Any]:
    """Torch's dictionary, with counters on their own instead of views of one tensor."""
    scalars = {STEP, *(n for n, s in optimizer.description.rule.states.items() if s.shape == "scalar")}
    state = {
        number: {key: value.clone() if key in scalars else value for key, value in entry.items()}
        for number, entry in plain["state"].items()
    }
    header = {"version": VERSION, "rule": optimizer.description.rule.name}
    return {**plain, "state": state, HEADER: header}


def export_for_torch(optimizer: RuleOptimizer) -> dict[str, Any]:
    """A checkpoint that torch.optim's class can load: low-bit states decoded to float32."""
    name = optimizer.description.torch_class
    if name is None:
        raise ValueError(f"torch.optim has no {optimizer.description.class_name}")
    saved = optimizer.state_dict()
    saved.pop(HEADER)
    params = optimizer._all_params()
    states = optimizer.description.rule.states
    for number, entry in saved["state"].items():
        param = params[number]
        plain = {key: value for key, value in entry.items() if ":" not in key and key != MASTER}
        for state_name, state in states.items():
            if state.shape is None and (value := _decoded(state_name, state, entry, param)) is not None:
                plain[state_name] = value
        saved["state"][number] = plain
    return saved


def load(optimizer: RuleOptimizer, state_dict: dict[str, Any]) -> None:
    """Loads a checkpoint of this optimizer or of torch's class of the same name."""
    saved: Any = state_dict.copy()
    for hook in optimizer._optimizer_load_state_dict_pre_hooks.values():
        result = hook(optimizer, saved)
        saved = saved if result is None else result
    _check(optimizer, saved)
    groups = deepcopy(saved["param_groups"])
    order = [number for group in groups for number in group["params"]]
    param_of = dict(zip(order, optimizer._all_params(), strict=True))
    group_of = {p: g for g in optimizer.param_groups for p in g["params"]}
    merged = [_merged_group(optimizer, mine, theirs) for mine, theirs in zip(optimizer.param_groups, groups, strict=True)]
    entries = WatchedStates(optimizer._invalidate)
    for number, entry in saved["state"].items():
        param = param_of[number]
        where = f"the state of parameter {number}"
        converted = _converted(optimizer, entry, param, group_of[param], where)
        if converted:
            dict.__setitem__(entries, param, converted)
    for mine, new in zip(optimizer.param_groups, merged, strict=True):
        mine.update(new)
    optimizer.state = entries
    optimizer._adopt_states()
    for post in optimizer._optimizer_load_state_dict_post_hooks.values():
        post(optimizer)


def _check(optimizer: RuleOptimizer, saved: Mapping[str, Any]) -> None:
    rule = optimizer.description.rule
    name = type(optimizer).__name__
    if not {"state", "param_groups"} <= set(saved):
        raise ValueError(f"{name} cannot load this: a checkpoint has the entries 'state' and 'param_groups'")
    header = saved.get(HEADER)
    if header is not None:
        if header["version"] > VERSION:
            raise ValueError(
                f"this checkpoint has format version {header['version']}, this fallline knows up to {VERSION}; "
                "install a newer fallline"
            )
        if header["rule"] != rule.name:
            raise ValueError(f"{name} cannot load a checkpoint of {header['rule']!r}; create that optimizer instead")
    mine, theirs = optimizer.param_groups, saved["param_groups"]
    if len(mine) != len(theirs):
        raise ValueError(f"the checkpoint has {len(theirs)} parameter groups, this optimizer has {len(mine)}")
    for i, (own, other) in enumerate(zip(mine, theirs, strict=True)):
        if len(own["params"]) != len(other["params"]):
            raise ValueError(
                f"group {i} of the checkpoint has {len(other['params'])} parameters, that of this optimizer "
                f"{len(own['params'])}"
            )
    known = {STEP, MASTER, *rule.states}
    for number, entry in saved["state"].items():
        for key in entry:
            if key.split(":")[0] not in known:
                raise ValueError(
                    f"the checkpoint's state {key!r} of parameter {number} is unknown to {name}, which has "
                    f"{', '.join(rule.states) or 'none'}; it is of another optimizer"
                )


def _merged_group(optimizer: RuleOptimizer, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint's hyperparameters; how and in what memory to compute stays as this object was made."""
    keep = {"params", "param_names", *IMPLEMENTATION}
    # Options of torch.optim that have no meaning here (capturable) are kept only if they are off.
    known = {**optimizer.defaults, **mine}
    new = {k: v for k, v in theirs.items() if k not in keep and (k in known or k == "initial_lr")}
    for name in ("capturable", "differentiable"):
        new.pop(name, None)
    if "param_names" in theirs and "param_names" in mine:
        new["param_names"] = theirs["param_names"]
    optimizer._check_group({**mine, **new})
    return new


def _converted(
    optimizer: RuleOptimizer, entry: Mapping[str, Any], param: Tensor, group: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """A saved state in the formats that this optimizer keeps."""
    rule = optimizer.description.rule
    result: dict[str, Any] = {}
    for name, state in rule.states.items():
        if state.shape == "scalar":
            if name in entry:
                result[name] = torch.tensor(float(entry[name]), dtype=torch.float64)
            continue
        if state.shape is not None:
            if name in entry and not state.is_scalar:
                result[name] = _shaped(entry[name], reduced_shape(state, param.shape), name, where).to(
                    param.device, computing_dtype(param), copy=True
                )
            continue
        kept = _kept_as_is(name, state, entry, param, group)
        if kept is not None:
            result.update(kept)
            continue
        value = _decoded(name, state, entry, param, where)
        if value is not None:
            result.update(_encoded(name, state, value, param, group))
    if group["master_weights"] and MASTER in entry:
        result[MASTER] = _shaped(entry[MASTER], param.shape, MASTER, where).to(param.device, torch.float32, copy=True)
    if result or STEP in entry:
        # torch's SGD keeps no counter; a buffer means that there was a first step.
        result[STEP] = torch.tensor(float(entry.get(STEP, 1.0)), dtype=torch.float32)
    return result


def _shaped(value: Any, shape: Any, name: str, where: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"{where}: {name} is {type(value).__name__}, not a tensor")
    if tuple(value.shape) != tuple(shape):
        raise ValueError(f"{where}: {name} has shape {tuple(value.shape)}, it should be {tuple(shape)}")
    return value


def _kept_as_is(
    name: str, state: State, entry: Mapping[str, Any], param: Tensor, group: Mapping[str, Any]
) -> dict[str, Tensor] | None:
    """Codes already in the wanted format are copied, not decoded and encoded again."""
    format = state_format(state, group["state_dtype"], param)
    if not isinstance(format, BlockFormat) or code_key(name, format) not in entry:
        return None
    return {
        key: entry[key].to(param.device, copy=True) for key in (code_key(name, format), scale_key(name))
    }


def _decoded(
    name: str, state: State, entry: Mapping[str, Any], param: Tensor, where: str = "a state"
) -> Tensor | None:
    """The saved state as a dense tensor of the parameter's shape."""
    for candidate in ("int8", "int4"):
        key = f"{name}:{candidate}"
        if key in entry:
            view = real_view(param.detach())
            format = block_format(candidate, state.kind)
            codes, scale = entry[key], entry.get(scale_key(name))
            blocks = -(-view.numel() // format.block)
            expected = view.numel() if candidate == "int8" else (view.numel() + 1) // 2
            if scale is None or codes.numel() != expected or scale.numel() != blocks:
                raise ValueError(f"{where}: {key} does not fit the parameter's shape {tuple(param.shape)}")
            dense = format.decode(codes, scale, view.shape)
            return torch.view_as_complex(dense) if param.is_complex() else dense
    value = entry.get(name)
    return None if value is None else _shaped(value, param.shape, name, where)


def _encoded(
    name: str, state: State, value: Tensor, param: Tensor, group: Mapping[str, Any]
) -> dict[str, Tensor]:
    """A dense state in the format of its group, lying in memory like the parameter."""
    format = state_format(state, group["state_dtype"], param)
    value = value.detach().to(param.device)
    if isinstance(format, BlockFormat):
        codes, scale = format.encode(real_view(value).to(torch.float32).contiguous())
        return {code_key(name, format): codes, scale_key(name): scale}
    if param.is_complex():
        format = torch.complex128 if format == torch.float64 else torch.complex64
    return {name: torch.empty_like(param, dtype=format, memory_format=torch.preserve_format).copy_(value)}


