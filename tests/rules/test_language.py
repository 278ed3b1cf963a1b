"""The language: what a rule becomes when it is traced, and what it is told when it says something impossible."""

import importlib.util
import itertools
import linecache
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fallline.rules
from fallline.optimizers import description
from fallline.rules import (
    RuleError,
    abs,
    axis,
    direction,
    dot,
    exp,
    finite,
    group,
    log,
    max,
    maximum,
    mean,
    minimum,
    nonneg,
    norm,
    optimizer,
    optional,
    positive,
    rsqrt,
    rule,
    scalar,
    sign,
    signed,
    sqrt,
    static,
    sum,
    tanh,
    weights,
    where,
)
from fallline.rules.graph import HOST_FUNCTIONS, Graph, Node, Space
from fallline.rules.program import Program
from fallline.rules.rule import Trace

# mypy: disable-error-code="no-untyped-def, valid-type"


def traced(declared: fallline.rules.Rule, ndim: int | None = None, **statics: Any) -> Program:
    return declared.program(Trace(tuple((n, statics.get(n, False)) for n in declared.statics), ndim))


def written(declared: fallline.rules.Rule, name: str, **statics: Any) -> Node:
    return traced(declared, **statics).writes[name]


# ---------------------------------------------------------------- the graph


def test_equal_expressions_are_one_node():
    @rule
    def twice(p, g, a, b, *, lr):
        return p - lr * g * g, g * g + 1, sqrt(g * g + 1)

    writes = traced(twice).writes
    assert writes["b"].args[0] is writes["a"]
    products = [n for n in writes["a"].graph.nodes if n.op == "mul" and n.args[0].attr == n.args[1].attr == "g"]
    assert len(products) == 1


def test_constants_are_folded():
    graph = Graph()
    assert (graph.const(2.0) * 3.0 - 5.0).attr == 1.0
    assert graph.apply("sqrt", 4.0).attr == 2.0
    assert graph.apply("where", graph.const(2.0) < 3.0, 7.0, 8.0).attr == 7.0
    assert (graph.const(1.0) / 0.0).attr == math.inf
    assert graph.apply("log", -1.0).attr != graph.apply("log", -1.0).attr  # NaN


def test_zeros_of_both_signs_stay_apart():
    graph = Graph()
    assert graph.const(0.0) is graph.const(0)
    assert graph.const(0.0) is not graph.const(-0.0)
    assert (1.0 / graph.const(-0.0)).attr == -math.inf


def test_operations_that_change_nothing_vanish():
    graph = Graph()
    x, c = graph.operand("x", Space.FULL), graph.host("first")
    assert x * 1.0 is x
    assert 1 * x is x
    assert -(-x) is x
    assert +x is x
    assert x**1 is x
    assert where(True, x, -x) is x
    assert where(False, x, -x).op == "neg"
    assert where(c, x, x) is x


def test_small_powers_are_products_and_roots():
    graph = Graph()
    x = graph.operand("x", Space.FULL)
    assert x**2 is x * x
    assert x**3 is x * x * x
    assert x**0.5 is sqrt(x)
    assert x**-0.5 is rsqrt(x)
    assert x**-1 is 1 / x
    assert (x**2.5).op == "pow"


def test_truth_values_count_as_numbers_in_arithmetic():
    graph = Graph()
    x = graph.operand("x", Space.FULL)
    positive_x = x > 0
    for used in (positive_x + 1.0, positive_x * x, -positive_x, sum(positive_x), minimum(positive_x, x)):
        assert any(a.op == "where" and a.args[0] is positive_x for a in used.args)
    assert (graph.const(True) + 1.0).attr == 2.0
    # "first" is a truth value of the host.
    assert (graph.host("first") * x).args[0].op == "where"


def test_division_by_a_number_is_done_once_in_float64():
    @rule
    def divided(p, g, *, scale: positive):
        return p - g / scale

    program = traced(divided)
    assert [n.op for n in program.pass_nodes(0)] == ["operand", "operand", "mul", "sub"]
    assert program.host(3.0)[0] == (1.0 / 3.0,)


# ---------------------------------------------------------------- hoisting


def test_adamw_does_per_element_only_what_depends_on_elements():
    program = traced(description("AdamW").rule)
    operations = Counter(n.op for n in program.pass_nodes(0) if n.op != "operand")
    # m: 2 mul, 1 add; v: 3 mul, 1 add; u: sqrt, mul, add, div; p: 2 mul, 1 sub.
    assert operations == Counter(mul=8, add=3, sqrt=1, div=1, sub=1)
    assert program.reductions == ()
    assert program.elementwise


def test_scalars_of_adamw_are_computed_on_the_host_in_float64():
    program = traced(description("AdamW").rule)
    values = dict(lr=3e-4, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1, step=7.0)
    assert set(program.host_inputs) == set(values)
    row, writes = program.host(*(values[name] for name in program.host_inputs))
    assert writes == ()
    lr, b1, b2, eps, decay, t = values.values()
    expected = [b1, b2, eps, 1 - b1, 1 - b2, 1 / math.sqrt(1 - b2**t), 1 - lr * decay, lr / (1 - b1**t)]
    assert sorted(row) == sorted(expected)


def test_hyperparameters_may_have_names_that_generated_code_uses():
    @rule
    def named(p, g, *, t1: finite, t2: finite, inf: finite, do_add: finite, h0: finite):
        return p - (t1 + t2 * sqrt(inf) + do_add / h0) * g

    program = traced(named)
    values = dict(t1=1.0, t2=2.0, inf=9.0, do_add=5.0, h0=2.0)
    assert program.host(*(values[n] for n in program.host_inputs))[0] == (1.0 + 2.0 * 3.0 + 5.0 / 2.0,)


# ---------------------------------------------------------------- the host computes as IEEE 754 says

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
    "pow": np.power,
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
        if float(x).is_integer() and float(y).is_integer():
            # Hyperparameters may be given as integers.
            assert_same_number(HOST_FUNCTIONS[op](int(x), int(y)), BINARY[op](x + 0.0, y + 0.0), f"{op}({x}, {y})")


def test_sign_on_the_host_is_torchs() -> None:
    for x in SPECIAL:
        assert HOST_FUNCTIONS["sign"](x) == torch.sign(torch.tensor(x, dtype=torch.float64)).item(), x


def test_overflow_on_the_host_gives_infinity():
    @rule
    def overflowing(p, g, *, a: finite, b: finite, step):
        return p + a**step * g, exp(b) * g if False else None  # type: ignore[return-value]

    with pytest.raises(RuleError):
        overflowing  # noqa: B018


# ---------------------------------------------------------------- reductions
