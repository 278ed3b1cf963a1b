"""Parameter groups from a model."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from torch import nn


def parameter_groups(
    model: nn.Module, *, decays: Collection[str], lr: float | None = None, layer_lr_decay: float | None = None
) -> list[dict[str, Any]]:
    """Groups of named parameters: biases, norms and other tensors of fewer than two axes do not decay.

    ``decays`` are the names of the weight decays that are not 0.
    ``layer_lr_decay`` multiplies the learning rate by that factor for every layer further from the output.
    Shared parameters appear once.  Frozen ones are included: they have no gradient, so they cost nothing, and
    can be thawed later.
    """
    if layer_lr_decay is not None:
        if not 0.0 < layer_lr_decay <= 1.0:
            raise ValueError(f"layer_lr_decay must be in (0, 1], got {layer_lr_decay!r}")
        if lr is None:
            raise ValueError(f"layer_lr_decay={layer_lr_decay!r} needs a learning rate to multiply; pass lr too")
    named = list(model.named_parameters())
    if not named:
        raise ValueError(f"{type(model).__name__} has no parameters; pass a model that has some")
    in_norms = {id(p) for module in model.modules() if _is_norm(module) for p in module.parameters(recurse=False)}
    depths = _depths([name for name, _ in named])
    deepest = max(depths.values())
    groups: dict[tuple[bool, int], dict[str, Any]] = {}
    for name, param in named:
        plain = bool(decays) and (param.ndim < 2 or "bias" in name.rpartition(".")[2] or id(param) in in_norms)
        depth = depths[name] if layer_lr_decay is not None else deepest
        group = groups.setdefault((plain, depth), {"params": []})
        group["params"].append((name, param))
        if plain:
            group.update(dict.fromkeys(decays, 0.0))
        if layer_lr_decay is not None:
            assert lr is not None
            group["lr"] = lr * layer_lr_decay ** (deepest - depth)
    return [groups[key] for key in sorted(groups)]


def _is_norm(module: nn.Module) -> bool:
    """LayerNorm over several axes has matrices for gains; other packages have norms of their own."""
    return "Norm" in type(module).__name__


def _depths(names: list[str]) -> dict[str, int]:
    """The layer of each parameter, by its name, counted from the input.

    The first number in a name says which layer it is: only their order counts, since layers without parameters
    (activations, dropout) have numbers too.  Parameters before the numbered layers (embeddings) are layer 0; those
    after them (the head) are one layer further than the last.
    """
    numbered = {name: int(m.group(1)) for name in names if (m := re.search(r"(?:^|\.)(\d+)\.", name))}
    layers = {number: depth for depth, number in enumerate(sorted(set(numbered.values())), start=1)}
    depths, seen = {}, False
    for name in names:
        if name in numbered:
            seen = True
            depths[name] = layers[numbered[name]]
        else:
            depths[name] = len(layers) + 1 if seen else 0
    return depths
