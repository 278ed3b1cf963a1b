"""The options every optimizer has beside its hyperparameters, and how a lowering follows from them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch

from fallline.lower.catalogue import find_lowering
from fallline.optimizers import descriptions
from fallline.optimizers.description import Description

STATE_DTYPES = ("float32", "bfloat16", "int8", "int4")

# In the order of the signature.  Those torch.optim has too have torch's names and meaning.
GROUP_OPTIONS: dict[str, Any] = {
    "maximize": False,
    "foreach": None,
    "fused": None,
    "compiled": False,
    "lowering": None,
    "capturable": False,
    "differentiable": False,
    "cautious": False,
    "state_dtype": "float32",
    "stochastic_rounding": False,
    "master_weights": False,
    "rounding_seed": 0,
}
OPTIMIZER_OPTIONS: dict[str, Any] = {"clip_norm": None, "skip_nonfinite": False}

# How and in what memory to compute is a matter of this optimizer object, not of a checkpoint.
IMPLEMENTATION = ("foreach", "fused", "compiled", "lowering", "state_dtype", "stochastic_rounding", "master_weights")

# Options of torch.optim that no lowering here can do, with the reason.
REFUSED = {
    "capturable": "CUDA graphs need device-side step counters",
    "differentiable": "steps are not recorded",
}

_FLAGS = ("maximize", "compiled", "cautious", "stochastic_rounding", "master_weights")

# Names that options have elsewhere.
OTHER_NAMES = {"learning_rate": "lr", "wd": "weight_decay", "epsilon": "eps"}

# Entries that torch's schedulers keep in a group.
SCHEDULER_KEYS = ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")


def check_group_keys(group: Any, known: Collection[str], optimizer: str) -> None:
    if not isinstance(group, dict) or "params" not in group:
        got = f"the entries {', '.join(map(str, group))}" if isinstance(group, dict) else f"a {type(group).__name__}"
        raise TypeError(f"a parameter group must be a dict with the entry 'params', got {got}")
    for name in group:
        if name in known or name in ("params", "param_names", *SCHEDULER_KEYS):
            continue
        if name in OPTIMIZER_OPTIONS:
            raise TypeError(f"{name} is an option of the optimizer, not of a group; pass it to {optimizer}(…)")
        # Groups may carry notes of users and other packages (a name, timm's lr_scale), as in torch; what looks like an
        # option would be ignored silently.
        close = difflib.get_close_matches(OTHER_NAMES.get(name, str(name)), [str(k) for k in known], n=1, cutoff=0.8)
        if close or any(name in d.defaults or name in d.rule.states for d in descriptions()):
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(sorted(known))}"
            raise TypeError(f"{optimizer} has no group option {name!r}{hint}")


def check_fixed(group: Mapping[str, Any], description: Description) -> None:
    """Refuses other values of entries that torch's class keeps in a group and ours cannot change."""
    for name, value in description.torch_group.items():
        if group.get(name, value) != value:
            other = next((d.class_name for d in descriptions() if name in d.defaults), None)
            remedy = f"use fallline.{other}" if other else f"use {name}={value!r}"
            raise ValueError(f"{name}={group[name]!r} is not possible with {description.class_name}; {remedy}")


def check_cautious(group: Mapping[str, Any], description: Description) -> None:
    if group["cautious"] and not description.rule.has_direction:
        raise ValueError(
            f"cautious=True is not possible with {description.class_name}: its equations have no direction "
            "that could be masked; use cautious=False"
        )


def state_dtype_name(value: Any) -> Any:
    """``"bfloat16"`` for ``torch.bfloat16``; groups and checkpoints hold names, since int4 has no dtype in torch."""
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value


def check_options(group: Mapping[str, Any]) -> None:
    for name in _FLAGS:
        if not isinstance(group[name], bool):
            raise TypeError(f"{name} must be True or False, got {group[name]!r}")
    for name in ("foreach", "fused"):
        if group[name] not in (None, True, False):
            raise TypeError(f"{name} must be True, False or None (the fastest that is correct), got {group[name]!r}")
    if not isinstance(group["rounding_seed"], int):
        raise TypeError(f"rounding_seed must be an integer, got {group['rounding_seed']!r}")
    if group["state_dtype"] not in STATE_DTYPES:
        names = ", ".join(repr(n) for n in STATE_DTYPES)
        raise ValueError(f"state_dtype must be one of {names}, got {group['state_dtype']!r}")
    if group["compiled"] and (group["fused"] or group["foreach"]):
        raise ValueError("compiled=True is a lowering of its own; leave foreach and fused unset")
    if group["lowering"] is not None:
        find_lowering(group["lowering"])
        if group["compiled"] or group["foreach"] is not None or group["fused"] is not None:
            raise ValueError(
                f"lowering={group['lowering']!r} says how to run; leave foreach, fused and compiled unset beside it"
            )
    if group["stochastic_rounding"] and group["master_weights"]:
        raise ValueError("stochastic_rounding and master_weights both keep small updates of 16-bit weights; choose one")
    for name, reason in REFUSED.items():
        if group[name]:
            raise ValueError(f"{name}={group[name]!r} is not supported: {reason}; use {name}=False")


def check_optimizer_options(options: Mapping[str, Any]) -> None:
    clip = options["clip_norm"]
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, (int, float)) or not clip > 0):
        raise ValueError(f"clip_norm must be a number > 0 or None, got {clip!r}")
    if not isinstance(options["skip_nonfinite"], bool):
        raise TypeError(f"skip_nonfinite must be True or False, got {options['skip_nonfinite']!r}")


class Wanted(NamedTuple):
    """A lowering that a group asks for, in the words of its options."""

    name: str
    asked: str
    remedy: str
    strict: bool = True
    """Whether a parameter that it cannot step is refused, and not stepped by the fastest that can."""


def wanted_lowering(group: Mapping[str, Any]) -> Wanted | None:
    """The lowering that the options name; None for the fastest one that is correct."""
    if group["lowering"] is not None:
        name = group["lowering"]
        return Wanted(name, f"lowering={name!r}", "use lowering=None for the fastest that is")
    foreach, fused = group["foreach"], group["fused"]
    if group["compiled"]:
        return Wanted("compiled", "compiled=True", "use compiled=False")
    if fused:
        name = "native each" if foreach is False else "native"
        # torch's flag, and torch's kernels take what ours do not: float64, other devices.
        return Wanted(name, "fused=True", f"use lowering={name!r} to refuse it", strict=False)
    if foreach is None and fused is None:
        return None
    return Wanted("eager" if foreach is False else "foreach", "foreach", "use foreach=None")
