"""Single values and operations of the rule language in C++."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from fallline.rules.node import Node
from fallline.rules.operations import INFIX


def literal(value: float | bool, real: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "NAN"
    if real == "float":
        value = ctypes.c_float(value).value  # rounded to float32, where it may be infinite
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("HUGE_VALF" if real == "float" else "HUGE_VAL")
    return float(value).hex() + ("f" if real == "float" else "")


def expression(node: Node, args: Sequence[str]) -> str:
    """The operation in C++; comparisons of NaN are false, as in Python and torch."""
    if node.op in INFIX:
        return f"{args[0]} {INFIX[node.op]} {args[1]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "truth":
        return f"({args[0]} != 0)"
    name = {"not": "negate", "where": "select"}.get(node.op, node.op)
    return f"fl_math::{name}({', '.join(args)})"


def indent(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else "    " + line for line in lines]
