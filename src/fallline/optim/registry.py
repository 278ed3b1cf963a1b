"""Optimizers by name: which there are, and one made from its name."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

import torch

from fallline.optim.assignment import Assignment, assigned_groups
from fallline.optim.classes import builtin_class
from fallline.optim.grouping import model_groups
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.routing import companion_settings, route_by_shape
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


def create(
    name: str,
    model_or_params: Any,
    *,
    assign: Assignment | None = None,
    companion: Mapping[str, Any] | str | None = None,
    split: bool = True,
    **options: Any,
) -> RuleOptimizer:
    """An optimizer by name.

    Given a model, it makes groups: no weight decay on biases, norms and other tensors of fewer than two
    axes; ``layer_lr_decay=0.8`` scales the rate of each layer down towards the input.  Given parameters,
    they are taken as they are.

    >>> import torch, fallline
    >>> opt = fallline.create("lion", torch.nn.Linear(3, 2), lr=1e-4, weight_decay=0.1)
    >>> [group["weight_decay"] for group in opt.param_groups]
    [0.1, 0.0]

    ``assign`` gives parameters another rule, or other settings: a dict, or pairs, from selectors to the name of a
    rule or to a dict of settings among which ``"rule"`` may be one.  A selector is a pattern of names (``"embed*"``),
    a class of modules (``nn.Embedding``), a shape (``fallline.select.vectors``), or a function of name and parameter.
    The first that matches takes a parameter; the rest is stepped by the optimizer's own rule.  Another rule begins
    with its own defaults, not with the settings of this one: rates of two rules are not comparable.  Biases and norms
    of a model do not decay under any rule, and ``layer_lr_decay`` scales the rates of all.

    >>> model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3))
    >>> opt = fallline.create("lion", model, assign={torch.nn.Embedding: {"rule": "adamw", "lr": 3e-4}})
    >>> opt.describe()
    lion: lr=0.0001: 2 tensors, 15 elements: 1.weight, 1.bias
    adamw: lr=0.0003: 1 tensor, 36 elements: 0.weight

    A matrix optimizer (Muon) steps the hidden matrices of a model; embeddings, heads, norms and biases go to its
    ``companion``, AdamW with a rate of its own unless it says otherwise: ``companion={"lr": 1e-3}``, or another rule.

    >>> model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 9))
    >>> fallline.create("muon", model, lr=0.02, companion={"lr": 1e-3}).describe()
    muon: lr=0.02: 1 tensor, 16 elements: 1.weight
    adamw: lr=0.001, betas=(0.9, 0.95), weight_decay=0.0: 4 tensors, 85 elements: 0.weight, 1.bias, 2.weight, 2.bias

    With a model in ``DistributedDataParallel``, each process steps a part of the matrices (``opt.split_over``);
    ``split=False`` lets every process step all of them.
    """
    made = builtin_class(find(name).class_name)
    if isinstance(model_or_params, torch.nn.Module):
        optimizer = for_model(made, model_or_params, assign=assign, companion=companion, **options)
        if split and isinstance(model_or_params, torch.nn.parallel.DistributedDataParallel):
            optimizer.split_over(model_or_params.process_group)
        return optimizer
    if "layer_lr_decay" in options:
        raise ValueError("layer_lr_decay needs a model: parameters alone do not say which layer they are of")
    if assign is not None:
        model_or_params = assigned_groups(made.description, model_or_params, assign)
    if companion is not None:
        routed = companion_settings(made.description, companion)
        model_or_params = route_by_shape(made.description, model_or_params, routed)
    return made(model_or_params, **options)


def for_model(
    made: type[RuleOptimizer],
    model: torch.nn.Module,
    *,
    layer_lr_decay: float | None = None,
    assign: Assignment | None = None,
    companion: Mapping[str, Any] | str | None = None,
    **options: Any,
) -> RuleOptimizer:
    """An optimizer of this class with the groups of a model that :func:`create` describes."""
    groups = model_groups(
        made.description,
        model,
        options,
        layer_lr_decay=layer_lr_decay,
        assign=assign or (),
        companion=companion_settings(made.description, companion),
    )
    return made(groups, **options)
