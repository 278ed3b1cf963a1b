"""Writes ``src/fallline/__init__.pyi``: the signature of every optimizer, for editors and type checkers.

The classes are made from their rules when they are first used, so that no type checker can read them in the source.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

import fallline
from fallline.optim import modes
from fallline.optim.classes import builtin_class
from fallline.optim.options import STATE_DTYPES
from fallline.optimizers import FILES
from fallline.optimizers.description import Description

STUBS = Path(fallline.__file__).with_name("__init__.pyi")

HEAD = '''\
"""Written by `make stubs` from the rules; a test keeps it up to date."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
'''


def text() -> str:
    """The contents of the file."""
    lines = [HEAD]
    lines += [f"from fallline import {name} as {name}" for name in sorted(fallline._MODULES)]
    imports = {f"from {module} import {name} as {name}" for name, module in fallline._PUBLIC.items()}
    lines += sorted({*imports, "from fallline.optim.optimizer import RuleOptimizer"})
    dtypes = ", ".join(f'"{name}"' for name in STATE_DTYPES)
    lines += ["", "__version__: str", "_PUBLIC: dict[str, str]", "_MODULES: tuple[str, ...]", ""]
    lines += [f"StateDtype: TypeAlias = Literal[{dtypes}] | torch.dtype", ""]
    for class_name in sorted(FILES):
        lines += class_text(class_name)
    return "\n".join(lines).rstrip() + "\n"


def class_text(class_name: str) -> Iterator[str]:
    made = builtin_class(class_name)
    yield f"class {class_name}(RuleOptimizer):"
    yield from textwrap.indent(f'r"""{docstring(made.description)}"""', "    ").splitlines()
    yield ""
    yield "    def __init__("
    yield "        self,"
    by_name = False
    for parameter in list(inspect.signature(made.__init__).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            by_name = True
            yield "        *,"
        default = "" if parameter.default is inspect.Parameter.empty else f" = {spelled_default(parameter.default)}"
        yield f"        {parameter.name}: {spelled(parameter.annotation)}{default},"
    yield "    ) -> None: ..."
    for name in sorted({*made.description.rule.entries, *(modes.methods() if made.description.has_modes else ())}):
        yield f"    def {name}(self) -> None: ..."
    yield ""


def docstring(description: Description) -> str:
    """The summary and the arguments; an editor shows them while they are typed."""
    arguments = re.search(r"^Arguments:\n(?:    .*\n|\n(?=    ))+", description.doc, re.MULTILINE)
    if arguments is None:
        return description.summary
    return f"{textwrap.fill(description.summary, 110)}\n\n{arguments.group().rstrip()}\n"


def spelled(annotation: Any) -> str:
    """A type as source."""
    names = {
        ParamsT: "ParamsT",
        Tensor: "Tensor",
        type(None): "None",
        Literal[STATE_DTYPES] | torch.dtype: "StateDtype",
    }
    if annotation in names:
        return names[annotation]
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(map(spelled_default, parts))}]"
    if get_origin(annotation) is tuple:
        return f"tuple[{', '.join(map(spelled, parts))}]"
    if isinstance(annotation, type) and not parts:
        return annotation.__name__
    assert get_origin(annotation) is types.UnionType, f"{annotation} has no spelling yet"
    return " | ".join(map(spelled, parts))


def spelled_default(value: Any) -> str:
    """A default as source; stubs may leave out those that are no literals."""
    if isinstance(value, str):
        return f'"{value}"'
    return "..." if value in (float("inf"), float("-inf")) else repr(value)


if __name__ == "__main__":
    STUBS.write_text(text())
