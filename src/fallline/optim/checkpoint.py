"""Checkpoints: exchanged with torch.optim both ways, validated before anything changes, formats converted.

A checkpoint is torch's dictionary of parameter groups and states, of plain dicts, numbers and tensors only,
with one entry more that says what wrote it, and which entries of states are the user's own.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fallline.lower.transfer import Owner
from fallline.optim.checkpoint_header import HEADER, OWN, VERSION, check_origin, listed
from fallline.optim.dtensor_states import as_dtensors
from fallline.optim.group_reader import MODE, RULE, GroupReader
from fallline.optim.hyperparameters import STEP
from fallline.optim.options import GROUP_OPTIONS, IMPLEMENTATION, REFUSED
from fallline.optim.roster import all_params
from fallline.optim.scalars import counter_dtype
from fallline.optim.sharded_checkpoint import exported, imported
from fallline.optim.states import MASTER, fitted, fitted_master, keys_of
from fallline.optim.watched import WatchedStates
from fallline.optimizers import descriptions
from fallline.optimizers.description import Description
from fallline.rules.chain import Chain
from fallline.rules.program import Program
from fallline.rules.rule import Rule

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer


def save(optimizer: RuleOptimizer) -> dict[str, Any]:
    """Torch's dictionary and our header, with counters on their own instead of views of one tensor."""
    for before in optimizer._optimizer_state_dict_pre_hooks.values():
        before(optimizer)
    numbers: dict[int, int] = {}
    for number, param in enumerate(all_params(optimizer.param_groups)):
        numbers.setdefault(id(param), number)  # as in torch, one that occurs twice has its first number
    groups = [
        {**{name: _plain(value) for name, value in group.items()}, "params": [numbers[id(p)] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    rules = {number: optimizer._readers.of(group).rule for number, group in group_of.items()}
    states: dict[Any, Any] = {}
    own: set[Any] = set()
    everything: Mapping[Any, Any] = optimizer.state
    for key, entry in everything.items():
        if not isinstance(key, Tensor):
            states[key] = entry  # the user's own
        elif id(key) in numbers:
            rule = rules[id(key)]
            scalars = {STEP, *(name for name, state in rule.states.items() if state.shape == "scalar")}
            if optimizer._team is not None:
                piece, owner, program = optimizer._pieces.of(key), *_stepped_by(optimizer, key, group_of[id(key)])
                entry = exported(entry, key, piece, owner, program.states, optimizer._team)
            states[numbers[id(key)]] = {k: v.clone() if k in scalars else v for k, v in entry.items()}
            own |= entry.keys() - _keys_of_rule(rule)
    header: dict[str, Any] = {"version": 1, "rule": optimizer.description.rule.name}
    if any(RULE in group for group in groups):
        header["version"] = VERSION
    if own:
        header[OWN] = sorted(own, key=str)
    saved: dict[str, Any] = {"state": states, "param_groups": groups, HEADER: header}
    for after in optimizer._optimizer_state_dict_post_hooks.values():
        result = after(optimizer, saved)
        saved = saved if result is None else result
    return saved


@functools.cache
def _keys_of_rule(rule: Rule) -> frozenset[str]:
    """Every key that the rule may have in a parameter's state, in whatever format."""
    keys = {STEP, MASTER}
    for name, state in rule.states.items():
        keys.update(keys_of(name) if state.low_bit else (name,))
    return frozenset(keys)


def _plain(value: Any) -> Any:
    """numpy's numbers (a rate of ``np.logspace``) as Python's: ``weights_only=True`` refuses numpy's."""
    if isinstance(value, np.generic):
        return value.item()
    return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value


def load(optimizer: RuleOptimizer, state_dict: dict[str, Any]) -> None:
    """Loads a checkpoint of this optimizer or of torch's class of the same name."""
    if not isinstance(state_dict, Mapping):
        raise ValueError(
            f"{type(optimizer).__name__} cannot load a {type(state_dict).__name__}; pass what state_dict() returned"
        )
    saved: Any = dict(state_dict)
    for before in optimizer._optimizer_load_state_dict_pre_hooks.values():
        result = before(optimizer, saved)
        saved = saved if result is None else result
    check_origin(optimizer, saved)
    params = _matched(optimizer, saved)
    origin = optimizer.description.torch_class if HEADER not in saved else None
    relative = None
    if HEADER in saved and saved[HEADER]["rule"] != optimizer.description.rule.name:
        relative = next(d for d in descriptions() if d.rule.name == saved[HEADER]["rule"])
        for group in optimizer.param_groups:  # of the same family, which has no variants in common
            check_usual(optimizer, group, "variant", "load it into the class that wrote it")
    own = (saved.get(HEADER) or {}).get(OWN, [])
    merged = [
        _merged_group(optimizer, mine, theirs, f"group {i} of the checkpoint", origin, relative)
        for i, (mine, theirs) in enumerate(zip(optimizer.param_groups, saved["param_groups"], strict=True))
    ]
    group_of = {p: {**g, **new} for g, new in zip(optimizer.param_groups, merged, strict=True) for p in g["params"]}
    entries = WatchedStates(optimizer._invalidation())
    for key, entry in saved["state"].items():
        where = f"the checkpoint's state of parameter {key}"
        if key not in params:
            if isinstance(key, int):
                raise ValueError(f"{where} belongs to no parameter: its groups name {listed(params)}")
            dict.__setitem__(entries, key, deepcopy(entry))  # the user's own
            continue
        param = params[key]
        loaded = _loaded_entry(optimizer, entry, param, group_of[param], own, where)
        if loaded:
            dict.__setitem__(entries, param, loaded)
    # Nothing above has changed anything.
    for mine, new in zip(optimizer.param_groups, merged, strict=True):
        mine.update(new)
    optimizer.state = entries
    optimizer._adopt_states()
    for after in optimizer._optimizer_load_state_dict_post_hooks.values():
        after(optimizer)


def _matched(optimizer: RuleOptimizer, saved: Mapping[str, Any]) -> dict[Any, Tensor]:
    """The checkpoint's numbers of parameters, or their names (torch.distributed.checkpoint), → the parameters of this
    optimizer."""
    mine, theirs = optimizer.param_groups, saved["param_groups"]
    if len(mine) != len(theirs):
        raise ValueError(
            f"the checkpoint has {len(theirs)} parameter groups, this optimizer has {len(mine)}; "
            "make the groups that were saved"
        )
    params: dict[Any, Tensor] = {}
    for i, (own, other) in enumerate(zip(mine, theirs, strict=True)):
        if not isinstance(other, Mapping) or not isinstance(other.get("params"), list):
            raise ValueError(f"group {i} of the checkpoint has no list 'params'; it was not saved by state_dict()")
        if len(own["params"]) != len(other["params"]):
            raise ValueError(
                f"group {i} of the checkpoint has {len(other['params'])} parameters, that of this optimizer "
                f"{len(own['params'])}; pass the parameters that were saved, in the same order"
            )
        params.update(zip(other["params"], own["params"], strict=True))
    return params


def check_usual(optimizer: RuleOptimizer, group: Mapping[str, Any], name: str, remedy: str) -> None:
    """Raises if an option that torch does not have is not at its default (a variant, ε outside the root)."""
    description = optimizer.description
    usual = {**GROUP_OPTIONS, **description.defaults}.get(name)
    if group.get(name, usual) != usual:
        raise ValueError(f"torch.optim.{description.torch_class} is not {name}={group[name]!r}; {remedy}")


def _merged_group(
    optimizer: RuleOptimizer,
    mine: Mapping[str, Any],
    theirs: Mapping[str, Any],
    where: str,
    torch_class: str | None,
    relative: Description | None,
) -> dict[str, Any]:
    """The checkpoint's hyperparameters and what schedulers keep beside them; how and in what memory to
    compute stays as this object was made, and so does what makes a preset one.  What ``torch_class``, its
    origin, does not have stays too."""
    reader = optimizer._readers.of(mine)
    description = reader.description
    if theirs.get(RULE) != mine.get(RULE):
        rules = [group.get(RULE, optimizer.description.name) for group in (theirs, mine)]
        raise ValueError(
            f"{where} is stepped by {rules[0]!r}, that of this optimizer by {rules[1]!r}; "
            "give it the rule that was saved"
        )
    known: Collection[str] | None = None if relative is None else relative.defaults.keys()
    if torch_class is not None:
        usual = description.defaults.get("variant")
        check_usual(optimizer, mine, "variant", f"load its checkpoint with variant={usual!r}")
        known = inspect.signature(getattr(torch.optim, torch_class)).parameters
    spelled = {part: alias for alias, parts in description.rule.aliases.items() for part in parts}
    for name in dict.fromkeys(spelled.get(n, n) for n in description.rule.hypers):
        if known is not None and name not in known:
            continue
        if name not in theirs and name in description.defaults and name not in GROUP_OPTIONS:
            raise ValueError(
                f"{where} has no {name!r}: it is of another optimizer than {type(optimizer).__name__}; "
                "load it into the class that wrote it"
            )
    for name, value in description.torch_group.items():
        if theirs.get(name, value) != value:
            raise ValueError(
                f"{where} has {name}={theirs[name]!r}: it is of another optimizer than {type(optimizer).__name__}; "
                "load it into the class that wrote it"
            )
    keep = {"params", RULE, *REFUSED, *IMPLEMENTATION, *description.preset_options}
    new = {name: deepcopy(value) for name, value in theirs.items() if name not in keep}
    if torch_class is None:
        new.update(_group_states(reader, theirs, where))
    try:
        reader.check({**mine, **new})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    return new


def _group_states(reader: GroupReader, theirs: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The numbers that a group keeps beside its options (Prodigy's d), without which it would begin anew."""
    found: dict[str, Any] = {}
    for name in reader.group_states:
        if name not in theirs:
            raise ValueError(
                f"{where} has no {name!r}, without which {reader.optimizer} cannot go on; load a whole checkpoint"
            )
        if name != MODE:
            found[name] = int(_count(theirs[name], where)) if name == STEP else _number(theirs[name], name, where)
        elif isinstance(theirs[name], bool):
            found[name] = theirs[name]
        else:
            raise ValueError(f"{where}: {name} is {theirs[name]!r}; it should be True or False")
    return found


def _loaded_entry(
    optimizer: RuleOptimizer, entry: Any, param: Tensor, group: Mapping[str, Any], own: Collection[Any], where: str
) -> dict[str, Any]:
    """A saved state in the formats that this optimizer keeps, in memory of its own; the user's ``own`` entries as they
    are."""
    reader = optimizer._readers.of(group)
    rule, here = reader.rule, optimizer._pieces.of(param)
    statics = dict(reader.trace(group, len(here.shape)).statics)
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where} is of type {type(entry).__name__}; it should be a dict")
    known = _keys_of_rule(rule)
    for key in entry:
        if key not in known and key not in own:
            raise ValueError(
                f"{where} has {key!r}, which {reader.description.class_name} does not know (it has "
                f"{', '.join(rule.states) or 'no states'}); load it into the optimizer that wrote it"
            )
    result: dict[str, Any] = {}
    states = {name: state.settled(statics) for name, state in rule.states.items()}
    owner, _ = _stepped_by(optimizer, param, group)
    entry, piece = imported(entry, param, here, owner, states, where)
    for name, state in states.items():
        if state.shape == "scalar":
            if name in entry:
                result[name] = torch.tensor(_number(entry[name], name, where), dtype=torch.float64, device="cpu")
        elif not state.is_scalar:
            found = fitted(name, state, entry, piece, group["state_dtype"], where) or {}
            result.update((key, _own(value, piece.param)) for key, value in found.items())
    if group["master_weights"] and entry.get(MASTER) is not None:
        result[MASTER] = _own(fitted_master(entry, piece.param, where), piece.param)
    if owner is None:
        result = as_dtensors(result, {}, param, here, states)
    if result or STEP in entry:
        # torch's SGD keeps no counter; a buffer means that there was a first step.
        result[STEP] = torch.tensor(_count(entry.get(STEP, 1.0), where), dtype=counter_dtype(), device="cpu")
        _refuse_incomplete(reader, result, where)
    result.update((key, _copied(entry[key], param)) for key in entry if key not in known)
    return result


def _stepped_by(optimizer: RuleOptimizer, param: Tensor, group: Mapping[str, Any]) -> tuple[Owner | None, Program]:
    """The owner of a parameter, if matrix functions step it, and its program."""
    program = optimizer._readers.of(group).program(group, len(optimizer._pieces.of(param).shape))
    return (optimizer._pieces.owners.get(param) if isinstance(program, Chain) else None), program


def _refuse_incomplete(reader: GroupReader, entry: Mapping[str, Any], where: str) -> None:
    """A state that always exists would otherwise begin anew in the middle of a run; one that a flag switches on may
    be missing, if the flag was set after the last step."""
    for name, state in reader.rule.states.items():
        in_group = state.shape in ("group", "optimizer")
        if state.when is None and not in_group and not any(key in entry for key in keys_of(name)):
            raise ValueError(
                f"{where} has no {name!r}, without which {reader.optimizer} cannot go on; "
                "load a whole checkpoint, or one without this parameter's state to begin it anew"
            )


def _copied(value: Any, param: Tensor) -> Any:
    """The user's: a tensor goes where the parameter is, as in torch."""
    return value.detach().to(param.device, copy=True) if isinstance(value, Tensor) else deepcopy(value)


def _own(value: Tensor, param: Tensor) -> Tensor:
    """A copy, lying in memory like the parameter where it has its shape."""
    if value.shape == param.shape and (value.is_floating_point() or value.is_complex()):
        return torch.empty_like(param, dtype=value.dtype, memory_format=torch.preserve_format).copy_(value)
    return value.clone(memory_format=torch.contiguous_format)


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not math.isfinite(number):
        shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) and value.ndim else repr(value)
        raise ValueError(f"{where}: {name} is {shown}; it should be a finite number")
    return number


def _count(value: Any, where: str) -> float:
    steps = _number(value, STEP, where)
    if steps < 0:
        raise ValueError(f"{where}: {STEP} is {steps:g}; it should be >= 0")
    return steps
