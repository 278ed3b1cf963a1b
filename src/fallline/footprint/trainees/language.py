"""Language models by name (``gpt2-xl``) or by numbers (``llama:layers=32,width=4096,heads=32,hidden=11008``)."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.footprint.trainees.trainee import Trainee, Unbuildable
from fallline.workloads import gpt, llama
from fallline.workloads.errors import WorkloadError

FAMILIES: Mapping[str, tuple[type, Callable[[Any], nn.Module]]] = {
    "gpt": (gpt.Shape, gpt.GPT),
    "llama": (llama.Shape, llama.Llama),
}
NAMED: Mapping[str, tuple[str, gpt.Shape | llama.Shape]] = {
    **{f"gpt-{name}" if "gpt" not in name else name: ("gpt", shape) for name, shape in gpt.SIZES.items()},
    **{name: ("llama", shape) for name, shape in llama.SIZES.items()},
}
ALIASES = {"gpt2-small": "gpt2"}
NO_DROPOUT = "dropout is off; with it, each place where it acts saves a mask besides"


def named(name: str) -> Trainee | None:
    """A model by its own name; None if there is none of that name."""
    key = ALIASES.get(name, name)
    if key not in NAMED:
        return None
    family, shape = NAMED[key]
    return of_shape(family, shape, name, name)


def by_numbers(spec: str) -> Trainee | None:
    """``FAMILY:layers=…,heads=…,width=…``; None if the text does not begin with a family."""
    family, colon, numbers = spec.partition(":")
    if not colon or family not in FAMILIES:
        return None
    return of_shape(family, shape_of(family, _numbers(spec, family, numbers), spec), spec, spec)


def _numbers(spec: str, family: str, text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value.strip().isdigit():
            raise Unbuildable(f"{spec}: write {family}:NAME=NUMBER,…, got {part!r}")
        found[name.strip()] = int(value)
    return found


def shape_of(family: str, numbers: Mapping[str, int], where: str) -> Any:
    """The shape of a family from numbers by name; unknown and missing ones are named."""
    made, _ = FAMILIES[family]
    hints = typing.get_type_hints(made)
    fields = {field.name: field for field in dataclasses.fields(made)}
    unknown = sorted(set(numbers) - set(fields))
    if unknown:
        raise Unbuildable(f"{where}: {family} has no {', '.join(unknown)}; it has {', '.join(fields)}")
    missing = [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in numbers]
    if missing:
        raise Unbuildable(f"{where}: {family} needs {', '.join(missing)} too")
    try:
        return made(**{name: bool(value) if hints[name] is bool else value for name, value in numbers.items()})
    except WorkloadError as error:
        raise Unbuildable(f"{where}: {error}") from None


def of_shape(family: str, shape: Any, name: str, spec: str, notes: tuple[str, ...] = ()) -> Trainee:
    _, model = FAMILIES[family]

    def inputs(batch: int, sequence: int | None) -> tuple[Tensor, Tensor]:
        size = (batch, sequence or shape.context)
        return torch.zeros(size, dtype=torch.int64), torch.zeros(size, dtype=torch.int64)

    return Trainee(
        name=name,
        spec=spec,
        build=lambda: model(shape),
        inputs=inputs,
        loss=_next_token_loss,
        batch=1,
        sequence=shape.context,
        most_sequence=shape.context if family == "gpt" else None,
        notes=(*notes, NO_DROPOUT),
    )


def _next_token_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    tokens, targets = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
