"""Parameter groups from a model."""

from __future__ import annotations

import re
from typing import Any

from torch import nn


def parameter_groups(
    model: nn.Module, *, decays: bool, lr: float | None = None, layer_lr_decay: float | None = None
) -> list[dict[str, Any]]:
    """Groups of named parameters: tensors of fewer than two axes (biases, norms, gains) do not decay.

    ``layer_lr_decay`` multiplies the learning rate by that factor for every layer further from the output.
    Shared parameters appear once; parameters that need no gradient are left out, as they never get one.
    """
    if layer_lr_decay is not None:
        if not 0.0 < layer_lr_decay <= 1.0:
            raise ValueError(f"layer_lr_decay must be in (0, 1], got {layer_lr_decay!r}")
        if lr is None:
            raise ValueError("layer_lr_decay needs lr")
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise ValueError(f"{type(model).__name__} has no parameter that requires a gradient")
    depths = _depths([name for name, _ in named])
    deepest = max(depths.values())
    groups: dict[tuple[bool, int], dict[str, Any]] = {}
    for name, param in named:
        plain = decays and param.ndim < 2
        depth = depths[name] if layer_lr_decay is not None else deepest
        group = groups.setdefault((plain, depth), {"params": []})
        group["params"].append((name, param))
        if plain:
            group["weight_decay"] = 0.0
        if layer_lr_decay is not None:
            assert lr is not None
            group["lr"] = lr * layer_lr_decay ** (deepest - depth)
    return [groups[key] for key in sorted(groups)]


def _depths(names: list[str]) -> dict[str, int]:
    """Which layer a parameter is of: the first number in its name counts layers; what comes before the
    numbered layers (embeddings) is layer 0, what comes after (the head) is one deeper than the last."""
    numbered = {name: int(m.group(1)) for name in names if (m := re.search(r"(?:^|\.)(\d+)\.", name))}
    last = max(numbered.values(), default=-1)
    depths, seen = {}, False
    for name in names:
        if name in numbered:
            seen = True
            depths[name] = numbered[name] + 1
        else:
            depths[name] = last + 2 if seen else 0
    return depths
