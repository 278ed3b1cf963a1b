"""Writes ``src/fallline/__init__.pyi``: the signature of every optimizer, for editors and type checkers.

The classes are made from their rules when they are first used, so that no type checker can read them in the source.
The options that every optimizer takes are declared once, as a ``TypedDict`` that each signature unpacks.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
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

STUBS = Path(fallline.__file__).with_name("__init__.pyi")

HEAD = '''\
"""Written by `make stubs` from the rules; a test keeps it up to date.

`help(fallline.AdamW)` shows the equations, the arguments and an example.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack
'''


def text() -> str:
    """The contents of the file."""
    lines = [HEAD]
    lines += [f"from fallline import {name} as {name}" for name in sorted(fallline._MODULES)]
    schedules = [name for name, module in fallline._PUBLIC.items() if module == "fallline.schedules"]
    imports = {f"from {module} import {n} as {n}" for n, module in fallline._PUBLIC.items() if n not in schedules}
    classes = {
        "from fallline.optim.optimizer import RuleOptimizer",
        "from fallline.schedules.closed_form import ClosedForm",
    }
    lines += sorted({*imports, *classes})
    dtypes = ", ".join(f'"{name}"' for name in STATE_DTYPES)
    lines += ["", "__version__: str", "_PUBLIC: dict[str, str]", "_MODULES: tuple[str, ...]", ""]
    lines += [f"StateDtype: TypeAlias = Literal[{dtypes}] | torch.dtype", ""]
    lines += ["# fmt: off", *options_text()]
    for class_name in sorted(FILES):
        lines += class_text(class_name)
    for class_name in sorted(schedules):
        lines += schedule_text(class_name)
    return "\n".join(lines).rstrip() + "\n"


def options_text() -> Iterator[str]:
    """The options that every optimizer takes by name."""
    yield "class _Options(TypedDict, total=False):"
    for parameter in signature(sorted(FILES)[0]):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            yield f"    {parameter.name}: {spelled(parameter.annotation)}"
    yield ""


def class_text(class_name: str) -> Iterator[str]:
    description = builtin_class(class_name).description
    positional = [p for p in signature(class_name) if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    yield f"class {class_name}(RuleOptimizer):"
    yield from filled(f'r"""{description.summary}"""'.split(" "), "    ", " ")
    yield "    def __init__("
    yield from filled(["self", *map(spelled_argument, positional), "**options: Unpack[_Options],"], "        ", ", ")
    yield "    ) -> None: ..."
    for name in sorted({*description.rule.entries, *(modes.methods() if description.has_modes else ())}):
        yield f"    def {name}(self) -> None: ..."
    yield ""


def schedule_text(class_name: str) -> Iterator[str]:
    made = getattr(fallline, class_name)
    arguments = list(map(spelled_argument, inspect.signature(made).parameters.values()))
    first_by_name = [p.kind for p in inspect.signature(made).parameters.values()].index(inspect.Parameter.KEYWORD_ONLY)
    arguments.insert(first_by_name, "*")
    yield f"class {class_name}(ClosedForm):"
    yield from filled(f'r"""{made.__doc__.split(chr(10))[0]}"""'.split(" "), "    ", " ")
    yield "    def __init__("
    yield from filled(["self", *arguments[:-1], f"{arguments[-1]},"], "        ", ", ")
    yield "    ) -> None: ..."
    yield ""


def signature(class_name: str) -> list[inspect.Parameter]:
    """The parameters of a constructor, without ``self``."""
    return list(inspect.signature(builtin_class(class_name).__init__).parameters.values())[1:]


def filled(parts: Iterable[str], indent: str, separator: str) -> Iterator[str]:
    """Lines of up to 120 characters, which break between parts only."""
    line = ""
    for part in parts:
        longer = line + separator + part if line else part
        if line and len(indent + longer + separator) > 120:
            yield indent + (line + separator).rstrip()
            longer = part
        line = longer
    yield indent + line


def spelled_argument(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is inspect.Parameter.empty else f" = {spelled_default(parameter.default)}"
    return f"{parameter.name}: {spelled(parameter.annotation)}{default}"


def spelled(annotation: Any) -> str:
    """A type as source."""
    if isinstance(annotation, str):
        return annotation
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
