"""Parameter groups from a model: who decays, and which layer learns at which rate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fallline.optim.assignment import Assignment, Named, Part, named_in_model, split
from fallline.optim.routing import route
from fallline.optimizers.description import Description

RATES = ("lr", "lr_1d")
"""Learning rates; MARS has a second one, for all that is not a matrix."""


def model_groups(
    own: Description,
    model: nn.Module,
    options: Mapping[str, Any],
    *,
    layer_lr_decay: float | None = None,
    assign: Assignment = (),
    companion: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Groups of named parameters: biases, norms and other tensors of fewer than two axes do not decay.

    ``options`` are those of the optimizer whose own rule is ``own``.
    ``layer_lr_decay`` multiplies the learning rates by that factor for every layer further from the output.
    ``assign`` gives parameters another rule or other settings; ``companion`` is the rule for those of the rest that a
    matrix optimizer does not step.
    Shared parameters appear once.  Frozen ones are included: they have no gradient, so they cost nothing, and
    can be thawed later.
    """
    if layer_lr_decay is not None and not 0.0 < layer_lr_decay <= 1.0:
        raise ValueError(f"layer_lr_decay must be in (0, 1], got {layer_lr_decay!r}")
    parameters = named_in_model(model)
    if not parameters:
        raise ValueError(f"{type(model).__name__} has no parameters; pass a model that has some")
    scales = None if layer_lr_decay is None else _layer_scales([one.names[0] for one in parameters], layer_lr_decay)
    groups: list[dict[str, Any]] = []
    rest, *assigned = split(own, parameters, assign)
    for part in (*route(own, rest, companion), *assigned):
        given = {**options, **part.settings} if part.description is own else part.settings
        settings = part.description.settings(given)
        if part.members and layer_lr_decay is not None and settings.get("lr") is None:
            raise ValueError(f"layer_lr_decay={layer_lr_decay!r} needs a learning rate to multiply; pass lr too")
        groups += _part_groups(part, own, settings, scales)
    return groups


def _part_groups(
    part: Part, own: Description, settings: Mapping[str, Any], scales: Mapping[str, float] | None
) -> list[dict[str, Any]]:
    """One group per layer, if layers differ, and kind of decay; ``settings`` are all that hold for the part."""
    hypers = part.description.rule.hypers
    decays = [name for name in hypers if name.startswith("weight_decay") and settings.get(name)]
    groups: dict[tuple[bool, float], dict[str, Any]] = {}
    shared = part.group(own)
    for member in part.members:
        key = bool(decays) and not _decays(member), 1.0 if scales is None else scales[member.names[0]]
        groups.setdefault(key, {**shared, "params": []})["params"].append(member.entry)
    _refuse_lost_decay(part, decays, [undecayed for undecayed, _ in groups])
    for (undecayed, scale), group in groups.items():
        if undecayed:
            group.update(dict.fromkeys(decays, 0.0))
        if scales is not None:
            group.update({name: settings[name] * scale for name in RATES if name in hypers})
    return [groups[key] for key in sorted(groups)]


def _decays(member: Named) -> bool:
    """Whether a parameter is neither a bias nor of a norm."""
    return not (
        member.param.ndim < 2
        or "bias" in member.names[0].rpartition(".")[2]
        or any(_is_norm(owner) for owner in member.owners)
    )


def _is_norm(module: nn.Module) -> bool:
    """LayerNorm over several axes has matrices for gains; other packages have norms of their own."""
    return "Norm" in type(module).__name__


def _refuse_lost_decay(part: Part, decays: Sequence[str], undecayed: Sequence[bool]) -> None:
    for name in decays:
        if name in part.settings and all(undecayed):
            raise ValueError(
                f"assign: {name}={part.settings[name]!r} would reach no parameter, since biases and norms of a model "
                "do not decay; leave it out, or pass model.named_parameters() to decay all alike"
            )


def _layer_scales(names: Sequence[str], layer_lr_decay: float) -> dict[str, float]:
    """The factor of the learning rate of each parameter."""
    depths = _depths(names)
    deepest = max(depths.values())
    return {name: layer_lr_decay ** (deepest - depth) for name, depth in depths.items()}


def _depths(names: Sequence[str]) -> dict[str, int]:
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
