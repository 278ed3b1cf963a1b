"""Optimizers as a race needs them: what settings each takes, and how it is made for a model.

Registered ones by name; one's own, a subclass of ``torch.optim.Optimizer``, as ``FILE.py:Class``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import nn

from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS
from fallline.optim.registry import create, find, for_model
from fallline.workloads.errors import WorkloadError
from fallline.workloads.loading import imported

_OF_MODELS = "layer_lr_decay"
"""What a model's parameter groups take beside the settings of the optimizer."""


class BadOptimizerFile(WorkloadError):
    """A user's file without the optimizer class that was named; workers tell it as they tell a bad workload file."""


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes one optimizer for any model."""

    title: str
    """How messages call it."""
    defaults: Mapping[str, Any]
    options: frozenset[str]
    """Further settings that it takes."""
    make: Callable[[nn.Module, Mapping[str, Any]], torch.optim.Optimizer]
    required: frozenset[str] = frozenset()
    """Settings without a default."""
    takes_anything: bool = False
    """Whether its class collects settings that its signature does not name."""
    averages: bool = False
    """Whether evaluation has other weights than training, so that its rate needs no decay."""

    @property
    def settings(self) -> frozenset[str]:
        return self.options | self.required | set(self.defaults)


def maker_of(optimizer: str) -> Maker:
    """By registry name, or from a user's file; raises ValueError or WorkloadError in one line."""
    return _own(optimizer) if is_file(optimizer) else _registered(optimizer)


def _registered(name: str) -> Maker:
    described = find(name)
    options = frozenset({*GROUP_OPTIONS, *OPTIMIZER_OPTIONS, _OF_MODELS, "converge"})
    return Maker(
        title=name,
        defaults=described.defaults,
        options=options,
        make=lambda model, settings: create(name, model, **settings),
        averages=described.has_modes,
    )


# ------------------------------------------------------------------ from a user's file


def is_file(optimizer: str) -> bool:
    return optimizer.endswith(".py") or ".py:" in optimizer or "/" in optimizer


def absolute(optimizer: str, folder: Path) -> str:
    """``FILE.py:Class`` from the root: workers may run elsewhere."""
    file, class_name = _parts(optimizer)
    return f"{(folder / Path(file).expanduser()).resolve()}:{class_name}"


def contestant_name(optimizer: str) -> str:
    """Its class's, as the registry would call it.

    >>> [contestant_name(f"mine.py:{name}") for name in ("Signum", "AdamW", "MySGD", "ScheduleFreeAdamW")]
    ['signum', 'adamw', 'my_sgd', 'schedule_free_adamw']
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-zA-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", "_", _parts(optimizer)[1])
    return words.lower()


def _parts(optimizer: str) -> tuple[str, str]:
    if optimizer.endswith(".py"):
        raise BadOptimizerFile(f"{optimizer}: name its optimizer class too, for instance {optimizer}:Mine")
    file, _, class_name = optimizer.rpartition(":")
    if not file.endswith(".py"):
        raise BadOptimizerFile(f"{optimizer}: an optimizer of your own is given as FILE.py:Class")
    if not class_name.isidentifier():
        raise BadOptimizerFile(f"{optimizer}: after the colon comes the name of a class, got {class_name!r}")
    return file, class_name


@functools.cache
def _own(optimizer: str) -> Maker:
    """Once per process, as workloads are: the file may do more than define a class."""
    made = _class_of(*_parts(optimizer))
    parameters, takes_anything = _parameters(made)
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    options: frozenset[str] = frozenset()
    make: Callable[[nn.Module, Mapping[str, Any]], torch.optim.Optimizer] = functools.partial(_ungrouped, made)
    if issubclass(made, RuleOptimizer):
        options = frozenset({*GROUP_OPTIONS, *OPTIMIZER_OPTIONS, _OF_MODELS})
        make = functools.partial(_grouped, made)
    return Maker(
        title=made.__name__,
        defaults={name: value for name, value in defaults.items() if name not in options},
        options=options,
        make=make,
        required=frozenset(parameters) - frozenset(defaults),
        takes_anything=takes_anything,
        averages=callable(getattr(made, "train", None)) and callable(getattr(made, "eval", None)),
    )


def _class_of(file: str, class_name: str) -> type[torch.optim.Optimizer]:
    path = Path(file)
    if not path.is_file():
        raise BadOptimizerFile(f"{file}: there is no such file")
    held = vars(imported(path))
    found = held.get(class_name)
    if _is_optimizer_class(found):
        return found
    if class_name in held:
        raise BadOptimizerFile(
            f"{file}: {class_name} must be a subclass of torch.optim.Optimizer, got "
            f"{found.__name__ if isinstance(found, type) else type(found).__name__}; "
            "of a rule, fallline.optimizer(rule, …) makes one"
        )
    others = [name for name, value in held.items() if _is_optimizer_class(value)]
    hint = f"it has {', '.join(others)}" if others else f"define `class {class_name}(torch.optim.Optimizer)`"
    raise BadOptimizerFile(f"{file}: there is no optimizer class {class_name}; {hint}")


def _is_optimizer_class(value: Any) -> TypeGuard[type[torch.optim.Optimizer]]:
    bases = (torch.optim.Optimizer, RuleOptimizer)
    return isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value not in bases


def _parameters(made: type[torch.optim.Optimizer]) -> tuple[dict[str, inspect.Parameter], bool]:
    """What its constructor takes by name beside the parameters, and whether it takes any other name too.

    What it collects in ``**kwargs`` it hands to its base, as far as can be known.
    """
    found: dict[str, inspect.Parameter] = {}
    passes_on = False
    for kind in made.__mro__:
        if kind is torch.optim.Optimizer:
            break
        if "__init__" not in vars(kind):
            continue
        _, *given = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
        passes_on = any(p.kind is p.VAR_KEYWORD for p in given)
        by_name = [p for p in given[1:] if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        found = {**{p.name: p for p in by_name}, **found}
        if not passes_on:
            break
    return found, passes_on


def _grouped(made: type[RuleOptimizer], model: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    return for_model(made, model, **settings)


def _ungrouped(
    made: type[torch.optim.Optimizer], model: nn.Module, settings: Mapping[str, Any]
) -> torch.optim.Optimizer:
    return made(model.parameters(), **settings)
