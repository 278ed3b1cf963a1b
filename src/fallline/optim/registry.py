"""Optimizers by name: which there are, and one made from its name."""

from __future__ import annotations

import fnmatch
from typing import Any

import torch

from fallline.optim.classes import builtin_class
from fallline.optim.grouping import parameter_groups
from fallline.optim.optimizer import RuleOptimizer
from fallline.optimizers import description_named, descriptions
from fallline.optimizers.description import Description


def list_optimizers(pattern: str = "*") -> list[str]:
    """Registry names that match a pattern, ``list_optimizers("adam*")``."""
    if not isinstance(pattern, str):
        raise TypeError(f'the pattern must be a string such as "adam*", got {pattern!r}')
    return [d.name for d in descriptions() if fnmatch.fnmatchcase(d.name, pattern.lower())]


def find(name: str) -> Description:
    """By registry name or class name, in any case."""
    if isinstance(name, str) and (averaging := average_named(name)) is not None:
        raise ValueError(
            f"{name!r} is no optimizer but an average of weights around one; make the optimizer first, then "
            f"fallline.{averaging}(optimizer, …)"
        )
    return description_named(name)


def average_named(name: str) -> str | None:
    """The class of an average by its name in snake case or its own."""
    from fallline import averaging

    kinds = {getattr(averaging, c).kind: c for c in averaging.__all__}
    return next((c for kind, c in kinds.items() if name.lower() in (kind, c.lower())), None)


def create(name: str, model_or_params: Any, **options: Any) -> RuleOptimizer:
    """An optimizer by name.

    Given a model, it makes groups: no weight decay on biases, norms and other tensors of fewer than two
    axes; ``layer_lr_decay=0.8`` scales the rate of each layer down towards the input.  Given parameters,
    they are taken as they are.

    >>> import torch, fallline
    >>> opt = fallline.create("lion", torch.nn.Linear(3, 2), lr=1e-4, weight_decay=0.1)
    >>> [group["weight_decay"] for group in opt.param_groups]
    [0.1, 0.0]
    """
    made = builtin_class(find(name).class_name)
    if isinstance(model_or_params, torch.nn.Module):
        return for_model(made, model_or_params, **options)
    if "layer_lr_decay" in options:
        raise ValueError("layer_lr_decay needs a model: parameters alone do not say which layer they are of")
    return made(model_or_params, **options)


def for_model(
    made: type[RuleOptimizer], model: torch.nn.Module, *, layer_lr_decay: float | None = None, **options: Any
) -> RuleOptimizer:
    """An optimizer of this class with the groups of a model that :func:`create` describes."""
    settings = made.description.settings(options)
    # MARS has a second one, for all that is not a matrix.
    decays = [n for n in made.description.rule.hypers if n.startswith("weight_decay") and settings.get(n)]
    groups = parameter_groups(model, decays=decays, lr=settings.get("lr"), layer_lr_decay=layer_lr_decay)
    return made(groups, **options)
