"""Random rules mean the same in every lowering.

A random expression is traced and run, and evaluated by numpy in float64 together with a bound of the rounding
error: where a comparison is decided by rounding, or a difference cancels, the bound says so and nothing is asked.
FALLLINE_RANDOM_RULES sets how many rules are tried; each takes the C++ compiler about two seconds.
"""

# mypy: disable-error-code="no-untyped-def, valid-type"
from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fallline
from fallline import rules
from fallline.rules import nonneg, rule
from tests.native import needs_native_and_a_compiler

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES = int(os.environ.get("FALLLINE_RANDOM_RULES", "0"))
SHAPES: list[tuple[int, ...]] = [(13,), (), (5, 7), (2, 3, 4), (3, 1300)]
STEPS = 3
HYPERS = dict(lr=0.3, beta=0.9, c=-1.7)

Array = NDArray[np.float64]


@dataclasses.dataclass
class Bounded:
    """A value in float64, and by how much a computation with unit roundoff ``u`` may differ from it."""

    value: Array
    error: Array
    u: float

    def rounded(self, value: Any, error: Any, units: float = 2.0) -> Bounded:
        value = np.asarray(value, dtype=np.float64)
        error = np.asarray(error) + units * self.u * np.abs(value) + 1e-38
        # Beyond the range of float32 nothing is asked.
        error = np.where(np.isfinite(value) & (np.abs(value) < 1e30) & np.isfinite(error), error, np.inf)
        return Bounded(value, np.broadcast_to(error, value.shape), self.u)

    def __add__(self, other: Bounded) -> Bounded:
        return self.rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Bounded) -> Bounded:
        return self.rounded(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Bounded) -> Bounded:
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error + self.error * other.error
        return self.rounded(self.value * other.value, error)

    def __truediv__(self, other: Bounded) -> Bounded:
        room = np.abs(other.value) - other.error
        value = self.value / other.value
        return self.rounded(value, np.where(room > 0, (self.error + np.abs(value) * other.error) / room, np.inf))

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error, self.u)

    def between(self, function: Any, low: Any = None) -> Bounded:
        """A monotone function: the error is what its values at the ends of the interval differ by."""
        lower = self.value - self.error if low is None else np.maximum(self.value - self.error, low)
        value, ends = function(self.value), (function(lower), function(self.value + self.error))
        return self.rounded(value, np.maximum(np.abs(ends[0] - value), np.abs(ends[1] - value)), units=8.0)


class OnArrays:
    """The functions of the language on bounded arrays."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim

    def sqrt(self, x: Bounded) -> Bounded:
        return x.between(np.sqrt, 0.0)

    def log(self, x: Bounded) -> Bounded:
        return x.between(np.log, 1e-300)

    def exp(self, x: Bounded) -> Bounded:
        return x.between(np.exp)

    def tanh(self, x: Bounded) -> Bounded:
        return x.between(np.tanh)

    def pow(self, x: Bounded, exponent: float) -> Bounded:
        return x.between(lambda v: np.power(v, exponent), 1e-300)

    def abs(self, x: Bounded) -> Bounded:
        return Bounded(np.abs(x.value), x.error, x.u)

    def sign(self, x: Bounded) -> Bounded:
        unsure = (np.abs(x.value) <= x.error) & (x.error > 0)
        return Bounded(np.sign(x.value), np.where(unsure, 2.0, 0.0), x.u)

    def minimum(self, x: Bounded, y: Bounded) -> Bounded:
        return x.rounded(np.minimum(x.value, y.value), np.maximum(x.error, y.error))

    def maximum(self, x: Bounded, y: Bounded) -> Bounded:
        return x.rounded(np.maximum(x.value, y.value), np.maximum(x.error, y.error))

    def choose(self, x: Bounded, y: Bounded, a: Bounded, b: Bounded) -> Bounded:
        sure = np.abs(x.value - y.value) > x.error + y.error
        value = np.where(x.value < y.value, a.value, b.value)
        error = np.where(x.value < y.value, a.error, b.error)
        worst = np.abs(a.value - b.value) + a.error + b.error
        return x.rounded(value, np.where(sure, error, worst))

    def reduce(self, kind: str, x: Bounded, axis: Any) -> Bounded:
        axis = axis if self.ndim > 1 and axis in (-1, -2) else None
        value, error = np.broadcast_arrays(x.value, x.error)
        keep = dict(axis=axis, keepdims=True) if axis is not None else {}
        if kind == "max":
            return x.rounded(np.max(value, **keep), np.max(error, **keep))
        count = value.shape[axis] if axis is not None else value.size
        # Sums of float32 numbers run in blocks: some thirty roundings for any length.
        summed = x.rounded(np.sum(value, **keep), np.sum(error + 40 * x.u * np.abs(value), **keep))
        return summed.rounded(summed.value / count, summed.error / count) if kind == "mean" else summed


class OnSymbols:
    """The same on traced values."""

    sqrt, log, exp, tanh = map(staticmethod, (rules.sqrt, rules.log, rules.exp, rules.tanh))
    abs, sign, minimum, maximum = map(staticmethod, (rules.abs, rules.sign, rules.minimum, rules.maximum))

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim

    def pow(self, x: Any, exponent: float) -> Any:
        return x**exponent

    def choose(self, x: Any, y: Any, a: Any, b: Any) -> Any:
        return rules.where(x < y, a, b)

    def reduce(self, kind: str, x: Any, axis: Any) -> Any:
        function = {"sum": rules.sum, "mean": rules.mean, "max": rules.max}[kind]
        if x.space != rules.graph.Space.FULL:
            return x  # a number, or a value per row: reduced already
        return function(x, axis if self.ndim > 1 and axis in (-1, -2) else "tensor")


Tree = Any
leaves = st.one_of(
    st.sampled_from(["p", "g", "a", "b", "g", "p"]),
    st.sampled_from(["lr", "beta", "c", "step"]),
    st.sampled_from([-3.5, -1.0, -0.1, 0.3, 1.0, 2.0]),
)


def larger(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "div", "minimum", "maximum"]), inner, inner),
        st.tuples(st.sampled_from(["neg", "abs", "sign", "sqrt", "log", "exp", "tanh"]), inner),
        st.tuples(st.just("pow"), inner, st.sampled_from([-1.5, -1, -0.5, 0.5, 1.25, 2, 3, 3.7])),
        st.tuples(st.just("choose"), inner, inner, inner, inner),
        st.tuples(
            st.just("reduce"), inner, st.sampled_from(["sum", "mean", "max"]), st.sampled_from([-1, -2, "tensor"])
        ),
    )


trees = larger(st.recursive(leaves, larger, max_leaves=12))


def evaluate(tree: Tree, names: dict[str, Any], on: Any, number: Any) -> Any:
    """``names``: what the leaves stand for; ``number`` turns a float into what ``on`` computes with."""
    if isinstance(tree, str):
        return names[tree]
    if isinstance(tree, float):
        return number(tree)
    op, *rest = tree
    x = evaluate(rest[0], names, on, number)
    if op == "reduce":
        # A number has nothing to reduce; times a tensor's zeros it has.
        return on.reduce(rest[1], x + names["g"] * number(0.0), rest[2])
    if op == "pow":
        return on.pow(on.abs(x) + number(0.25), rest[1])
    others = [evaluate(other, names, on, number) for other in rest[1:]]
    if op in ("add", "sub", "mul", "div"):
        y = others[0]
        return x + y if op == "add" else x - y if op == "sub" else x * y if op == "mul" else x / y
    if op == "neg":
        return -x
    if op in ("sqrt", "log"):
        return getattr(on, op)(on.abs(x) + number(0.25))
    if op == "exp":
        return on.exp(on.minimum(x, number(3.0)))
    return getattr(on, op)(x, *others)


def equations(trees: tuple[Tree, ...], p: Any, names: dict[str, Any], on: Any, number: Any) -> tuple[Any, Any, Any]:
    a, b, u = (evaluate(tree, names, on, number) for tree in trees)
    # Kept in range, so that a second step says something about the first.
    return p - names["lr"] * on.tanh(u), on.tanh(a), on.minimum(on.abs(b), number(5.0))


def declare(trees: tuple[Tree, ...]) -> Any:
    @rule
    def random_rule(p, g, a, b: nonneg, *, lr, beta, c, step, ndim):
        names = dict(p=p, g=g, a=a, b=b, lr=lr, beta=beta, c=c, step=step)
        return equations(trees, p, names, OnSymbols(ndim), p.graph.const)

    return fallline.optimizer(random_rule, **HYPERS)


def reference(trees: tuple[Tree, ...], u: float, start: list[Array], grads: list[list[Array]]) -> list[list[Bounded]]:
    """(p, a, b) of every parameter after the last step."""

    def exact(x: Any) -> Bounded:
        value = np.asarray(x, dtype=np.float64)
        return Bounded(value, np.zeros_like(value), u)

    results = []
    for i, p0 in enumerate(start):
        p, a, b = exact(p0), exact(np.zeros_like(p0)), exact(np.zeros_like(p0))
        for t, now in enumerate(grads, start=1):
            # Numbers of the host are rounded when they meet an element.
            numbers = {n: exact(v).rounded(v, 0.0) for n, v in (*HYPERS.items(), ("step", float(t)))}
            names = dict(p=p, g=exact(now[i]), a=a, b=b, **numbers)
            p, a, b = equations(trees, p, names, OnArrays(p0.ndim), lambda x: exact(x).rounded(x, 0.0))
        results.append([p, a, b])
    return results


LOWERINGS: list[tuple[str, torch.dtype, dict[str, Any]]] = [
    ("eager", torch.float64, dict(foreach=False, fused=False)),
    ("foreach", torch.float64, dict(foreach=True, fused=False)),
    ("foreach", torch.float32, dict(foreach=True, fused=False)),
    ("native", torch.float32, dict(foreach=True, fused=True)),
]


def check(trees: tuple[Tree, ...]) -> None:
    rng = np.random.default_rng(11)
    start, *grads = (
        [rng.normal(size=s).astype(np.float32).astype(np.float64) for s in SHAPES] for _ in range(STEPS + 1)
    )
    make = declare(trees)
    with np.errstate(all="ignore"):
        bounds = {u: reference(trees, u, start, grads) for u in (2.0**-53, 2.0**-24)}
    asked = 0
    for lowering, dtype, flags in LOWERINGS:
        params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in start]
        optimizer = make(params, **flags)
        for now in grads:
            for p, g in zip(params, now, strict=True):
                p.grad = torch.tensor(g, dtype=dtype)
            optimizer.step()
        assert f": {lowering} (asked for)" in optimizer.explain()
        for p, expected in zip(params, bounds[2.0**-53 if dtype == torch.float64 else 2.0**-24], strict=True):
            for name, bound in zip(("p", "a", "b"), expected, strict=True):
                actual = (p if name == "p" else optimizer.state[p][name]).detach().double().numpy()
                value, error = np.broadcast_to(bound.value, actual.shape), np.broadcast_to(bound.error, actual.shape)
                asks = error < 0.1
                asked += int(asks.sum())
                wrong = asks & ~(np.abs(actual - value) <= error)
                assert not wrong.any(), (
                    f"{name} of {tuple(p.shape)} through {lowering} in {dtype}: {actual[wrong][:3]}, "
                    f"expected {value[wrong][:3]} within {error[wrong][:3]}"
                )
    event(f"asked of {100 * asked // (len(LOWERINGS) * 3 * sum(int(np.prod(s)) for s in SHAPES)):3d} %")


@settings(
    max_examples=EXAMPLES or 15,
    derandomize=EXAMPLES == 0,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.tuples(trees, trees, trees))
def test_random_rules_agree(trees: tuple[Tree, ...]) -> None:
    needs_native_and_a_compiler()
    check(trees)


def test_the_bounds_would_notice_a_wrong_operation() -> None:
    """A reference that adds where the rule subtracts must not pass."""
    good, bad = (("sub", "g", "a"), "b", ("mul", "g", 0.5)), (("add", "g", "a"), "b", ("mul", "g", 0.5))
    rng = np.random.default_rng(0)
    start, *grads = ([rng.normal(size=s) for s in SHAPES] for _ in range(STEPS + 1))
    for mine, theirs in zip(
        reference(good, 2.0**-24, start, grads), reference(bad, 2.0**-24, start, grads), strict=True
    ):
        assert np.all(np.abs(mine[1].value - theirs[1].value) > mine[1].error + theirs[1].error)
