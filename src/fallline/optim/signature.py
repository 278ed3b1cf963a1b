"""The signature of an optimizer class, with types: editors, stubs and command lines that read signatures use it."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS, STATE_DTYPES
from fallline.optimizers.description import Description
from fallline.rules.annotations import Choice, Range, Static, switch

BY_POSITION, BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY

OPTION_TYPES: dict[str, Any] = {
    "maximize": bool,
    "foreach": bool | None,
    "fused": bool | None,
    "compiled": bool,
    "lowering": str | None,
    "capturable": bool,
    "differentiable": bool,
    "cautious": bool,
    "state_dtype": Literal[STATE_DTYPES] | torch.dtype,
    "stochastic_rounding": bool,
    "master_weights": bool,
    "rounding_seed": int,
    "clip_norm": float | None,
    "skip_nonfinite": bool,
}


def signature(description: Description) -> inspect.Signature:
    """The signature of ``__init__``, with ``self``: hyperparameters by position or name, options by name only."""
    parameters = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("params", BY_POSITION, annotation=ParamsT),
    ]
    options = {**GROUP_OPTIONS, **OPTIMIZER_OPTIONS}
    for name, default in description.defaults.items():
        if name not in options:
            parameters.append(
                inspect.Parameter(name, BY_POSITION, default=default, annotation=type_of(description, name))
            )
    for name, default in options.items():
        preset = description.defaults.get(name, default)
        parameters.append(inspect.Parameter(name, BY_NAME, default=preset, annotation=OPTION_TYPES[name]))
    return inspect.Signature(parameters, return_annotation=None)


def type_of(description: Description, name: str) -> Any:
    """The type of a hyperparameter, ``tuple[float, float]`` for betas."""
    rule = description.rule
    if name in rule.aliases:
        return tuple[tuple(_type_of_one(rule.hypers[part]) for part in rule.aliases[name])]  # type: ignore[misc]
    if name == "lr":  # torch takes a tensor too, which changes without recompiling a training step
        return float | Tensor | None if rule.hypers[name].may_be_none else float | Tensor
    return _type_of_one(rule.statics[name] if name in rule.statics else rule.hypers[name])


def _type_of_one(note: Range | Static) -> Any:
    if isinstance(note, Choice):
        return Literal[note.words]
    if isinstance(note, Static):
        if note.holds is not None:
            return object  # a list, a number or a word, which `check` looks at
        return bool if note.choices == (False, True) else Literal[note.choices]
    number = bool if note is switch else float
    return number | None if note.may_be_none else number
