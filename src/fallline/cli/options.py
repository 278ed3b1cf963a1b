"""Options in groups: a command takes dataclasses, and their fields are its arguments and options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """The same command for typer: every parameter that is a dataclass is replaced by the dataclass's fields.

    Fields are annotated as typer wants parameters, and are given to the command as one frozen object.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     width: int = 80
    ...     height: int = 24
    >>> @grouped
    ... def show(name: str, size: Size) -> None:
    ...     print(name, size)
    >>> list(inspect.signature(show).parameters)
    ['name', 'width', 'height']
    >>> show(name="a", width=9, height=2)
    a Size(width=9, height=2)
    """
    hints = typing.get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _parameters(hints[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        function(**made, **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]
