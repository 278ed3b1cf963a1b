"""The elementwise operations of the language: how they are written, and how the host computes them in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "and": "&",
    "or": "|",
}
"""Operations that are written the same in Python, torch and C++."""

LOGIC = {"and": "&", "or": "|", "not": "~"}
BOOLEAN_OPS = frozenset({"lt", "le", "eq", "and", "or", "not", "truth"})


# IEEE behaviour where Python raises, because the host must agree with the kernels.


def _divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
    except ValueError:
        # A negative power of zero, or a fractional power of a negative number.
        return (math.copysign(math.inf, a) if b % 2 == 1 else math.inf) if a == 0 else math.nan


def _exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _log(a: float) -> float:
    return math.log(a) if a > 0 else (-math.inf if a == 0 else math.nan)


def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


HOST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "pow": _power,
    "mod": lambda a, b: math.fmod(a, b) if b else math.nan,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: float((a > 0) - (a < 0)),
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "rsqrt": lambda a: _divide(1.0, math.sqrt(a)) if a >= 0 else math.nan,
    "exp": _exp,
    "log": _log,
    "tanh": math.tanh,
    "minimum": _minimum,
    "maximum": _maximum,
    "where": lambda c, a, b: a if c else b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a,
}


# The graph inserts these casts where a truth value is stored between the loops that compute and use it.
CASTS: dict[str, Callable[..., Any]] = {"number": float, "truth": bool}
