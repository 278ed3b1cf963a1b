"""Sentences that a rule cannot say, and the errors that it gets instead."""

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fallline.rules import (
    RuleError,
    axis,
    group,
    mean,
    nonneg,
    norm,
    rule,
    scalar,
    signed,
    static,
    sum,
    weights,
    where,
)

# mypy: disable-error-code="no-untyped-def, valid-type"


def offence(declare: Callable[[], Any]) -> tuple[str, str]:
    """The source line that the error names, and what it says."""
    with pytest.raises(RuleError) as caught:
        declare()
    file, line, says = str(caught.value).split(":", 2)
    assert file == __file__
    return linecache.getline(file, int(line)).strip(), says.strip()


def branches(p, g, *, lr):
    step = lr * g
    if g > 0:  # here
        step = -step
    return p - step


def branches_in_python_functions(p, g, *, lr):
    return p - builtins_max(g, lr)  # here


builtins_max = __builtins__["max"] if isinstance(__builtins__, dict) else __builtins__.max


def chains_comparisons(p, g, *, lr):
    return p - where(0 < g < lr, g, 0.0)  # here


def calls_math(p, g, *, lr):
    return p - lr / math.sqrt(g)  # here


def calls_torch(p, g, *, lr):
    return p - lr / torch.sqrt(g)  # here


def calls_numpy(p, g, *, lr):
    scaled = lr * g
    return p - np.sqrt(scaled)  # here


def helper(g):
    return 1 if g else 0  # here


def branches_in_its_own_function(p, g, *, lr):
    return p - lr * helper(g)


def indexes(p, g, *, lr):
    return p - lr * g[0]  # here


def calls_methods(p, g, *, lr):
    return p - lr * g.sum()  # here


def returns_too_few(p, g, m, *, lr):
    m = m + g
    return p - lr * m  # here


def returns_too_many(p, g, *, lr):
    return p - lr * g, g  # here


def returns_a_truth_value(p, g, m, *, lr):
    return p - lr * g, m > 0  # here


def returns_first(p, g, m, *, lr, first):
    return p - lr * g, first  # here


def returns_nothing(p, g, m, *, lr):
    m = m + g
    return p - lr * m, None  # here


def returns_text(p, g, *, lr):
    return "p"  # here


def uses_columns(p, g, *, lr):
    return p - lr * g / norm(g, -2)  # here


def uses_columns_of_vectors(p, g, *, lr, ndim):
    if ndim > 0:
        g = g / norm(g, -2)  # here
    return p - lr * g


def uses_rows(p, g, *, lr):
    return p - lr * g / norm(g, "rows")  # here


def mixes_rows(p, g, *, lr, ndim):
    if ndim < 2:
        return p - lr * g
    by_row = norm(g, "rows")
    return p - lr * g / by_row / norm(g, -1)  # here


def reduces_over_an_unknown_axis(p, g, *, lr):
    return p - lr * g / sum(g, 0)  # here


def reduces_a_number(p, g, *, lr):
    return p - g * sum(lr)  # here


def reduces_columns_over_all(p, g, *, lr, ndim):
    return p - lr * g * (sum(sum(g, -2), "all") if ndim > 1 else 1.0)  # here


def joins_numbers(p, g, *, lr):
    return p - lr * where((g > 0) & p, g, 0.0)  # here


def chooses_by_a_number(p, g, *, lr):
    return p - where(lr, g, 0.0)  # here


OFFENCES: list[tuple[Callable[..., Any], str]] = [
    (branches, "cannot branch on a traced value; use where(condition, a, b), or annotate the argument as `static`"),
    (branches_in_python_functions, "cannot branch on a traced value; use where("),
    (chains_comparisons, "cannot branch on a traced value; use where("),
    (calls_math, "use the functions of fallline.rules (sqrt, exp,"),
    (calls_torch, "the functions of fallline.rules (sqrt, where, sign, minimum, sum, …), nothing of torch, numpy"),
    (calls_numpy, "the functions of fallline.rules (sqrt, where, sign, minimum, sum, …), nothing of torch, numpy"),
    (branches_in_its_own_function, "cannot branch on a traced value; use where("),
    (indexes, "a rule may use arithmetic, comparisons and the functions of fallline.rules"),
    (calls_methods, "a rule may use arithmetic, comparisons and the functions of fallline.rules"),
    (returns_too_few, "returns 1 value(s), but it has to return 2: the new p, m"),
    (returns_too_many, "returns 2 value(s), but it has to return 1: the new p"),
    (returns_a_truth_value, "returns a truth value for m; use where(condition, 1.0, 0.0)"),
    (returns_first, "returns a truth value for m; use where(condition, 1.0, 0.0)"),
    (returns_nothing, "returns None for m; return m itself if it does not change"),
    (returns_text, "computes with numbers and its own arguments, got 'p' of type str"),
    (uses_columns, "need a matrix: take the keyword argument `ndim` and use them only if ndim >= 2"),
    (uses_columns_of_vectors, "use them only if ndim >= 2 (traced with ndim=1)"),
    (uses_rows, "needs an axis: take the keyword argument `ndim` and use it only if ndim >= 1"),
    (mixes_rows, 'can use axis "rows" or the axes -1 and -2, not both'),
    (reduces_over_an_unknown_axis, "axis must be 'tensor', 'all', 'rows', -1 or -2, got 0"),
    (reduces_a_number, "sum over 'tensor' needs a value per element"),
    (reduces_columns_over_all, "a value per col cannot be reduced over 'all'"),
    (joins_numbers, "an operand of `&` must be a truth value, such as x > 0 or x != 0"),
    (chooses_by_a_number, "the condition of where must be a truth value, such as x > 0 or x != 0"),
]


@pytest.mark.parametrize(("function", "remedy"), OFFENCES, ids=lambda x: getattr(x, "__name__", ""))
def test_an_impossible_rule_is_told_where_and_what_instead(function: Callable[..., Any], remedy: str) -> None:
    line, says = offence(lambda: rule(function))
    assert line.endswith("# here")
    assert remedy in says


def has_a_default(p, g, *, lr=0.1):
    return p - lr * g


def has_an_unknown_note(p, g, m: int, *, lr):
    return p - lr * g, m


def has_an_unknown_range(p, g, *, lr: "float"):
    return p - lr * g


def takes_any_number_of_states(p, g, *states, lr):
    return p - lr * g


def has_no_gradient(p, *, lr):
    return p


def depends_on_no_flag(p, g, m: signed(when="has_momentum"), *, lr):
    return p - lr * g, m


def is_wide_with_no_flag(p, g, m: signed(wide="has_momentum"), *, lr):
    return p - lr * g, m


def starts_as_nothing(p, g, m: signed(init="beta"), *, lr):
    return p - lr * g, m


def starts_as_none(p, g, m: signed(init=None), *, lr):
    return p - lr * g, m


def is_of_an_unknown_kind(p, g, m: signed(kind="positive"), *, lr):
    return p - lr * g, m


def has_an_unknown_shape(p, g, m: signed(shape="rows"), *, lr):
    return p - lr * g, m


def starts_as_another_shape(p, g, m: weights(shape=axis(-1)), *, lr, ndim):
    return p - lr * g, m


def has_a_state_per_row(p, g, r: nonneg(shape=axis(-1)), *, lr):
    return p - lr * g, r


def has_a_reserved_state(p, g, step, *, lr):
    return p - lr * g, step


def has_a_reserved_argument(p, g, *, lr, params):
    return p - lr * params * g


SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (has_a_default, "lr has a default; defaults belong to the optimizer: fallline.optimizer(rule, lr=…)"),
    (has_an_unknown_note, "m is annotated with <class 'int'>; use signed, nonneg, weights, scalar, group or optimizer"),
    (has_an_unknown_range, "lr is annotated with <class 'float'>; use static or a range (nonnegative, positive"),
    (takes_any_number_of_states, "*states is not possible in a rule"),
    (has_no_gradient, "needs the parameter and its gradient as its first two positional arguments"),
    (depends_on_no_flag, "add the keyword argument `has_momentum: static`"),
    (is_wide_with_no_flag, "m is wide with 'has_momentum', which is no static argument; add the keyword argument"),
    (starts_as_nothing, 'm starts as \'beta\'; it can start as a number, "param", "grad" or a hyperparameter'),
    (starts_as_none, 'm starts as None; it can start as a number, "param", "grad" or a hyperparameter'),
    (is_of_an_unknown_kind, "m is of kind 'positive'; use signed, nonneg, weights"),
    (has_an_unknown_shape, "m has shape 'rows'; it can have axis(-1), axis(-2), axis(\"rows\") or 'scalar'"),
    (starts_as_another_shape, "m starts as 'param' but has another shape; let it start as a number"),
    (has_a_state_per_row, "@rule(derive={'flag': lambda ndim: ndim > 1})"),
    (has_a_reserved_state, "a state cannot be called step, which has another meaning; rename it"),
    (has_a_reserved_argument, "an argument cannot be called params, which has another meaning; rename it"),
]


@pytest.mark.parametrize(("function", "remedy"), SIGNATURES, ids=lambda x: getattr(x, "__name__", ""))
def test_an_impossible_signature_is_told_where_and_what_instead(function: Callable[..., Any], remedy: str) -> None:
    line, says = offence(lambda: rule(function))
    assert line.startswith(f"def {function.__name__}(")
    assert remedy in says


def lengthy(p, g, *, lr, momentum, has_momentum: static):
    return p - lr * momentum * g


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (dict(betas=("beta1",)), "betas stands for beta1, but beta1 is no argument"),
        (dict(derive={"fancy": lambda lr: lr > 0}), "derive names 'fancy'; add the keyword argument `fancy: static`"),
        (
            dict(derive={"has_momentum": lambda mu: mu > 0}),
            "has_momentum is derived from mu, which is no argument of the rule",
        ),
        (dict(derive={"has_momentum": lambda lr, ndim: ndim > 0}), "derive a flag from ndim alone"),
    ],
)
def test_impossible_options_of_the_decorator_are_told(options: dict[str, Any], remedy: str) -> None:
    line, says = offence(lambda: rule(**options)(lengthy))
    assert line.startswith("def lengthy(")
    assert remedy in says


@pytest.mark.parametrize("thing", [3, dict, len, rule(lengthy)], ids=lambda x: type(x).__name__)
def test_a_rule_is_a_function(thing: Any) -> None:
    with pytest.raises(RuleError, match="a rule is a function: def rule"):
        rule(thing)


def test_counts_is_parameter_or_group():
    with pytest.raises(
        RuleError, match='counts must be "parameter" or "group", got "step"'.replace('"step"', "'step'")
    ):
        rule(counts="step")(lengthy)


def test_a_state_can_only_take_what_fits_its_shape():
    def too_wide(p, g, one: scalar, *, lr):
        return p - lr * g, one + g  # here

    def too_wide_for_a_group(p, g, one: group, *, lr):
        return p - lr * g, norm(g)  # here

    def other_axis(p, g, r: nonneg(shape=axis(-1), when="matrix"), *, lr, matrix: static):
        return p - lr * g, (mean(g * g, -2) if matrix else r)  # here

    for function, says in (
        (too_wide, "one is one number per scalar, but its new value varies more than that"),
        (too_wide_for_a_group, "one is one number per group, but its new value varies more than that"),
    ):
        line, told = offence(lambda function=function: rule(function))  # type: ignore[misc]
        assert line.endswith("# here")
        assert says in told
    line, told = offence(lambda: rule(derive={"matrix": lambda ndim: ndim > 1})(other_axis))
    assert line.endswith("# here")
    assert "r has a value per row, but its new value does not" in told
