"""Pickling by reference: like functions and classes, by the name under which a module holds them."""

from __future__ import annotations

import pickle
import sys
from typing import Any


def reference(value: Any, what: str) -> str:
    """The name of ``value`` in its module: its own, or that of a variable at the top level that holds it."""
    module = sys.modules.get(value.__module__)
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is value:
        return str(value.__qualname__)
    for name, held in vars(module).items() if module else ():
        if held is value:
            return name
    raise pickle.PicklingError(
        f"{what} cannot be pickled: pickle looks for it by name, and no variable of {value.__module__} holds it; "
        "make it at the top level of that module"
    )


class Referenced:
    """An object that exists once: a copy is the object itself, and a pickle is its name."""

    __qualname__: str

    def __reduce__(self) -> str:
        return reference(self, f"the {type(self).__name__.lower()} {self.__qualname__}")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self
