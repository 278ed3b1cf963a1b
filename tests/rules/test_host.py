"""Scalars on the host are computed as IEEE 754 says."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fallline.rules import (
    abs,
    exp,
    finite,
    log,
    maximum,
    minimum,
    rsqrt,
    rule,
    sign,
    sqrt,
    tanh,
    where,
)
from fallline.rules.operations import HOST_FUNCTIONS
from tests.rules.tracing import traced

# mypy: disable-error-code="no-untyped-def, valid-type"


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 1e-310, 1e308, -1e308, 710.0, math.inf, -math.inf, math.nan]
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    # numpy takes the root where the power is a half, which differs for -0 and -inf.
    "pow": lambda x, y: np.power(np.abs(x), y) if y == 0.5 and x in (0, -np.inf) else np.power(x, y),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
}


def assert_same_number(actual: Any, expected: Any, what: str) -> None:
    assert actual == pytest.approx(expected, rel=1e-15, nan_ok=True), what
    if expected == 0 and not isinstance(actual, bool) and "imum" not in what:
        assert math.copysign(1.0, actual) == math.copysign(1.0, expected), what


@pytest.mark.parametrize("op", UNARY)
def test_host_functions_of_special_values(op: str) -> None:
    for x in SPECIAL:
        with np.errstate(all="ignore"):
            expected = UNARY[op](np.float64(x))
        assert_same_number(HOST_FUNCTIONS[op](x), expected, f"{op}({x})")


@pytest.mark.parametrize("op", BINARY)
def test_host_operations_on_special_values(op: str) -> None:
    for x, y in itertools.product(SPECIAL, SPECIAL):
        with np.errstate(all="ignore"):
            expected = BINARY[op](np.float64(x), np.float64(y))
        assert_same_number(HOST_FUNCTIONS[op](x, y), expected, f"{op}({x}, {y})")


@pytest.mark.parametrize("op", BINARY)
def test_host_operations_on_integers(op: str) -> None:
    """Shape facts are integers."""
    for x, y in itertools.product(range(4), repeat=2):
        with np.errstate(all="ignore"):
            expected = BINARY[op](np.float64(x), np.float64(y))
        assert_same_number(HOST_FUNCTIONS[op](x, y), expected, f"{op}({x}, {y})")


def test_sign_on_the_host_is_torchs() -> None:
    for x in SPECIAL:
        assert HOST_FUNCTIONS["sign"](x) == torch.sign(torch.tensor(x, dtype=torch.float64)).item(), x


def test_overflow_and_division_by_zero_pass_through_the_host():
    @rule
    def overflowing(p, g, *, a: finite, b: finite, step):
        return p + a**step * g + exp(b) * p + g / (b - b)

    program = traced(overflowing)
    values = dict(a=-10.0, b=1000.0, step=401.0)
    row = program.host(*(values[n] for n in program.host_inputs))[0]
    assert sorted(row) == [-math.inf, math.inf, math.inf]


def test_the_documented_functions_are_those_of_the_language():
    elementwise = {f.__name__ for f in (sqrt, rsqrt, exp, log, tanh, abs, sign, minimum, maximum, where)}
    operators = {"add", "sub", "mul", "div", "pow", "mod", "neg", "lt", "le", "eq", "and", "or", "not"}
    assert set(HOST_FUNCTIONS) == elementwise | operators
