"""Optimizers from users' files: ``FILE.py:Class``, a subclass of ``torch.optim.Optimizer``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, TypeGuard

import torch

from fallline.optim.optimizer import RuleOptimizer
from fallline.workloads.errors import WorkloadError
from fallline.workloads.loading import imported


class BadOptimizerFile(WorkloadError):
    """A user's file without the optimizer class that was named; workers tell it as they tell a bad workload file."""


def is_file(optimizer: str) -> bool:
    return optimizer.endswith(".py") or ".py:" in optimizer or "/" in optimizer


def absolute(optimizer: str, folder: Path) -> str:
    """``FILE.py:Class`` from the root: workers may run elsewhere."""
    file, class_name = parts(optimizer)
    return f"{(folder / Path(file).expanduser()).resolve()}:{class_name}"


def name_of(optimizer: str) -> str:
    """The name of its class, as the registry would write it.

    >>> [name_of(f"mine.py:{name}") for name in ("Signum", "AdamW", "MySGD", "ScheduleFreeAdamW")]
    ['signum', 'adamw', 'my_sgd', 'schedule_free_adamw']
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-zA-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])", "_", parts(optimizer)[1])
    return words.lower()


def parts(optimizer: str) -> tuple[str, str]:
    if optimizer.endswith(".py"):
        raise BadOptimizerFile(f"{optimizer}: name its optimizer class too, for instance {optimizer}:Mine")
    file, _, class_name = optimizer.rpartition(":")
    if not file.endswith(".py"):
        raise BadOptimizerFile(f"{optimizer}: an optimizer of your own is given as FILE.py:Class")
    if not class_name.isidentifier():
        raise BadOptimizerFile(f"{optimizer}: after the colon comes the name of a class, got {class_name!r}")
    return file, class_name


def class_of(file: str, class_name: str) -> type[torch.optim.Optimizer]:
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


def parameters_of(made: type[torch.optim.Optimizer]) -> tuple[dict[str, inspect.Parameter], bool]:
    """The arguments that its constructor takes by name beside the parameters, and whether it takes any other name too.

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
