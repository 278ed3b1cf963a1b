"""The function that declares a rule: its arguments, and the lines that its errors name."""

from __future__ import annotations

import dis
import inspect
import traceback
from collections.abc import Callable
from typing import Any

from fallline.rules.node import RuleError


def signature_of(function: Callable[..., Any]) -> tuple[list[str], list[str], dict[str, Any]]:
    positional, keywords = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            raise RuleError(
                f"{place_of(function)}: the argument {parameter.name} has a default; defaults belong to the optimizer: "
                f"fallline.optimizer(rule, {parameter.name}=…)"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keywords.append(parameter.name)
        else:
            raise RuleError(f"{place_of(function)}: *{parameter.name} is not possible in a rule")
    try:
        notes = inspect.get_annotations(function, eval_str=True)
    except Exception as error:
        # With `from __future__ import annotations`, annotations are evaluated only here.
        raise RuleError(
            f"{place_of(function)}: {error}; annotations must be names that the file imports "
            "(remove `from __future__ import annotations` if the rule is declared inside a function)"
        ) from None
    return positional, keywords, notes


def place_of(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """``file:line`` of the rule or, given an error, of the line inside the rule that raised it or that returned."""
    code = function.__code__
    if error is None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame.lineno for frame in frames if frame.filename == code.co_filename and frame.lineno]
    return f"{code.co_filename}:{inside[-1] if inside else _return_line(function)}"


def _return_line(function: Callable[..., Any]) -> int:
    """The line of the last ``return``."""
    code = function.__code__
    ends = [i.offset for i in dis.get_instructions(code) if i.opname.startswith("RETURN")]
    lines = [line for start, stop, line in code.co_lines() if line and any(start <= end < stop for end in ends)]
    return max(lines, default=code.co_firstlineno)
