"""Which parameters a matrix optimizer leaves to its companion, the rule for everything that is no hidden matrix.

A model says what its parameters are for: embeddings, heads, norms and biases go to the companion.  Parameters alone say
no more than their shapes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from fallline.optim.assignment import Named, Part
from fallline.optim.group_reader import RULE
from fallline.optimizers import description_named
from fallline.optimizers.description import Description

HEADS = {"head", "lm_head", "classifier", "score", "embed_out", "output_layer", "logits"}
"""Names of modules that map to classes or tokens."""
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
EMBEDDED = re.compile(r"emb|^(pos|wte|wpe|\w+_token)$|^positions?(_|$)", re.IGNORECASE)
"""Names of parameters, or of modules with one, that stand for tokens and positions without being an nn.Embedding."""


def companion_settings(own: Description, given: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    """The companion's rule and settings: the user's over those of the description; None if the rule needs none."""
    if isinstance(given, str):
        given = {RULE: given}
    if own.companion is None:
        if given:
            raise ValueError(f"{own.name} steps every parameter itself; leave companion out, or use assign")
        return None
    given = dict(given or {})
    if given.get(RULE, own.companion[RULE]) != own.companion[RULE]:
        return given  # another rule begins with its own defaults
    return {**own.companion, **given}


def route(own: Description, rest: Part, companion: Mapping[str, Any] | None) -> list[Part]:
    """The part of a matrix optimizer, without the parameters that its companion steps, and these."""
    if companion is None:
        return [rest]
    settings = dict(companion)
    other = Part(None, description_named(settings.pop(RULE)), settings)
    mine = Part(None, own, {})
    not_hidden = _not_hidden(rest.members)
    for member in rest.members:
        (other if id(member) in not_hidden else mine).members.append(member)
    if rest.members and not mine.members:
        raise ValueError(
            f"{own.name} steps hidden matrices, and this model has none beside embeddings, heads, norms and biases; "
            f"use {other.description.name}"
        )
    return [mine, other]


def _not_hidden(members: Sequence[Named]) -> set[int]:
    matrices = [member for member in members if member.param.ndim >= 2]
    found = {id(member) for member in members if member.param.ndim < 2}
    layers = []
    for member in matrices:
        paths = [name.split(".") for name in member.names]
        words = {word for path in paths for word in path[:-1]}
        is_norm = any("Norm" in type(owner).__name__ for owner in member.owners)
        is_embedding = any(isinstance(owner, EMBEDDINGS) for owner in member.owners) or any(
            EMBEDDED.search(word) for path in paths for word in path[-2:]
        )
        if is_norm or is_embedding or _is_vector(member.param):
            found.add(id(member))
            continue
        layers.append(member)
        if words & HEADS:
            found.add(id(member))
    if layers and _is_head(layers[-1], [member for member in matrices if member is not layers[-1]]):
        found.add(id(layers[-1]))
    return found


def _is_vector(param: Tensor) -> bool:
    """Whether it has one row or one column: a class token, or the filters of a convolution by channels."""
    return 1 in (param.shape[0], param.shape[1:].numel()) or (param.ndim > 2 and param.shape[1] == 1)


def _is_head(last: Named, others: Sequence[Named]) -> bool:
    """Whether the last matrix maps to something that no other layer takes: classes or tokens, not hidden features."""
    if not others or not any(isinstance(owner, nn.Linear) for owner in last.owners):
        return False
    return last.param.shape[0] not in {size for other in others for size in other.param.shape[1:]}


def route_by_shape(own: Description, params: Iterable[Any], companion: Mapping[str, Any] | None) -> Iterable[Any]:
    """Groups in which a matrix optimizer's companion has the parameters that are no matrices, with a notice.

    Groups that name a rule, and those of matrices alone, stay as they are.
    """
    if companion is None:
        return params
    entries = [params] if isinstance(params, Tensor) else list(params)
    given = [entry if isinstance(entry, Mapping) else None for entry in entries]
    groups = [g for g in given if g is not None] or [{"params": entries}]
    found: list[dict[str, Any]] = []
    moved: list[Any] = []
    for group in groups:
        members = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        small = [] if RULE in group else [entry for entry in members if _param(entry).ndim < own.rule.min_ndim]
        moved += small
        matrices = [entry for entry in members if not any(entry is other for other in small)]
        if matrices or not small:
            found.append({**group, "params": matrices})
        if small:
            found.append({"params": small, **companion})
    if moved:
        settings = ", ".join(f"{name}={value}" for name, value in companion.items() if name != RULE)
        count = "1 parameter goes" if len(moved) == 1 else f"{len(moved)} parameters go"
        warnings.warn(
            f"{own.class_name} steps matrices: by their shape, {count} to {companion[RULE]} "
            f"({settings}); embeddings and heads look like other matrices, so pass the model to tell them apart: "
            f'fallline.create("{own.name}", model)',
            stacklevel=4,
        )
    return found


def _param(entry: Any) -> Tensor:
    param = entry[1] if isinstance(entry, tuple) else entry
    if not isinstance(param, Tensor):
        raise TypeError(f"an optimizer steps tensors, got a {type(param).__name__}")
    return param
