"""Optimizer classes: made from the description of a built-in optimizer, or from a rule of the user's own."""

from __future__ import annotations

import copyreg
import functools
import inspect
import sys
from typing import Any

from fallline.optim import modes
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS
from fallline.optim.signature import signature
from fallline.optimizers import description_of
from fallline.optimizers.description import Description, describe
from fallline.rules.reference import reference
from fallline.rules.rule import Rule


class UsersClass(type):
    """The type of optimizer classes that users make: the variable that holds one need not have its class's name."""


copyreg.pickle(UsersClass, lambda cls: reference(cls, f"the optimizer class {cls.__name__}"))


def class_of(described: Description, module: str, kind: type[type] = type) -> type[RuleOptimizer]:
    """The optimizer class of a description."""

    def __init__(self: RuleOptimizer, params: Any, *args: Any, **kwargs: Any) -> None:
        RuleOptimizer.__init__(self, params, *args, **kwargs)

    shown = signature(described)
    __init__.__signature__ = shown  # type: ignore[attr-defined]
    __init__.__annotations__ = {n: p.annotation for n, p in shown.parameters.items() if n != "self"} | {"return": None}
    return kind(
        described.class_name,
        (RuleOptimizer,),
        {
            "description": described,
            "__doc__": described.doc,
            "__module__": module,
            "__init__": __init__,
            **{name: _entry_method(name) for name in described.rule.entries},
            **(modes.methods() if described.has_modes else {}),
        },
    )


def _entry_method(name: str) -> Any:
    def method(self: RuleOptimizer) -> None:
        self.run_entry(name)

    method.__name__ = name
    return method


@functools.cache
def builtin_class(class_name: str) -> type[RuleOptimizer]:
    """``fallline.AdamW`` by its name, made when it is first asked for."""
    return class_of(description_of(class_name), "fallline")


def optimizer(rule: Rule, class_name: str | None = None, /, **defaults: Any) -> type[RuleOptimizer]:
    """An optimizer class from a rule and its defaults; a real ``torch.optim.Optimizer``, fused.

    >>> import torch, fallline
    >>> from fallline.rules import rule, sign
    >>> @rule
    ... def signum(p, g, m, *, lr, beta):
    ...     m = beta * m + (1 - beta) * g
    ...     return p - lr * sign(m), m
    >>> Signum = fallline.optimizer(signum, lr=1e-4, beta=0.9)
    >>> Signum.__name__
    'Signum'
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"fallline.optimizer needs a function decorated with @rule, got {rule!r}")
    for taken in (*rule.hypers, *rule.statics, *rule.aliases):
        if taken in GROUP_OPTIONS or taken in OPTIMIZER_OPTIONS or taken in inspect.signature(describe).parameters:
            raise ValueError(f"{rule.name} has an argument {taken}, a name that every optimizer uses itself; rename it")
    for taken in rule.entries:
        if hasattr(RuleOptimizer, taken):
            raise ValueError(f"{rule.name} has an entry {taken}, a method that every optimizer has itself; rename it")
    name = class_name or "".join(part.capitalize() for part in rule.name.split("_"))
    described = describe(
        rule, name, defaults=defaults, doc=rule.function.__doc__ or f"The optimizer of the rule {rule.name}."
    )
    # The class belongs to the module that makes it, as with collections.namedtuple.
    return class_of(described, sys._getframe(1).f_globals.get("__name__", "__main__"), UsersClass)
