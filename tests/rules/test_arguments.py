"""Arguments, states and entry points of a rule."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from fallline.rules import (
    RuleError,
    axis,
    group,
    maximum,
    mean,
    nonneg,
    optimizer,
    optional,
    positive,
    rule,
    scalar,
    signed,
    sqrt,
    static,
    sum,
    weights,
    where,
)
from fallline.rules.space import Space
from fallline.rules.trace import Trace
from tests.rules.tracing import traced, written

# mypy: disable-error-code="no-untyped-def, valid-type"


# ---------------------------------------------------------------- arguments and states


def test_the_signature_names_states_hyperparameters_flags_and_facts():
    @rule(betas=("beta1", "beta2"))
    def named(w, grad, m, v: nonneg, *, lr, beta1, beta2, fancy: static, step, numel):
        return w - lr * beta1 * beta2 * step * numel * grad, m, v

    assert (named.param_name, named.grad_name) == ("w", "grad")
    assert {n: s.kind for n, s in named.states.items()} == {"m": "signed", "v": "nonneg"}
    assert list(named.hypers) == ["lr", "beta1", "beta2"]
    assert list(named.statics) == ["fancy"]
    assert named.aliases == {"betas": ("beta1", "beta2")}
    assert set(traced(named).host_inputs) == {"lr", "beta1", "beta2", "step", "numel"}


def test_conventional_ranges_follow_the_names():
    @rule
    def ranged(p, g, *, lr, beta, eps, anything):
        return p - lr * beta * eps * anything * g

    for name, bad in (("lr", -1.0), ("beta", 1.0), ("eps", math.inf), ("anything", math.nan)):
        with pytest.raises(ValueError, match=f"^{name} must be .*got"):
            ranged.hypers[name].check(name, bad)
    ranged.hypers["anything"].check("anything", -3.0)


def test_optional_numbers_may_be_none():
    optional(positive).check("eps", None)
    optional(positive).check("eps", 1.0)
    with pytest.raises(ValueError, match="eps must be > 0 or None, got -1"):
        optional(positive).check("eps", -1.0)
    with pytest.raises(TypeError, match="eps must be a number > 0, got None"):
        positive.check("eps", None)


def test_every_combination_of_flags_is_traced_when_the_rule_is_declared():
    seen = []

    @rule
    def flagged(p, g, m: signed(when="has_momentum"), *, lr, has_momentum: static, form: static("a", "b", "c")):
        seen.append((has_momentum, form))
        return p - lr * g, m

    assert sorted(seen) == [(h, f) for h in (False, True) for f in "abc"]
    # The program is kept: the second time nothing is traced.
    traced(flagged, has_momentum=True, form="b")
    assert len(seen) == 6


def test_static_arguments_check_their_choices():
    with pytest.raises(ValueError, match="form must be 'a' or 'b', got 'c'"):
        static("a", "b").check("form", "c")
    with pytest.raises(ValueError, match="fancy must be False or True, got 1"):
        static.check("fancy", 1)


def test_flags_can_be_derived_from_hyperparameters():
    @rule(derive={"has_momentum": lambda momentum: momentum != 0})
    def derived(p, g, buf: signed(when="has_momentum"), *, lr, momentum, has_momentum: static):
        if has_momentum:
            g = buf = momentum * buf + g
        return p - lr * g, buf

    assert derived.trace_for({"lr": 1.0, "momentum": 0.0}, 2) == Trace((("has_momentum", False),), None)
    assert derived.trace_for({"lr": 1.0, "momentum": 0.9}, 2) == Trace((("has_momentum", True),), None)
    # A tensor decides too, and gives the same specialisation as a number.
    assert derived.trace_for({"lr": 1.0, "momentum": torch.tensor(0.9)}, 2) == Trace((("has_momentum", True),), None)


def test_flags_can_be_derived_from_the_number_of_axes():
    @rule(derive={"factored": lambda ndim: ndim > 1})
    def factored(p, g, r: nonneg(shape=axis(-1), when="factored"), v: nonneg(when="not factored"), *, factored: static):
        if factored:
            r = r + mean(g * g, -1)
            return p - g / sqrt(r), r, v
        v = v + g * g
        return p - g / sqrt(v), r, v

    for ndim in range(7):
        trace = factored.trace_for({}, ndim)
        assert trace == Trace((("factored", ndim > 1),), ndim)
        assert list(factored.program(trace).states) == (["r"] if ndim > 1 else ["v"])


def test_states_exist_when_their_flag_says_so():
    @rule
    def switched(p, g, a: signed(when="on"), b: signed(when="not on"), *, on: static):
        if on:
            assert b is None
            a = a + g
        else:
            assert a is None
            b = b + g
        return p - g, a, b

    assert list(traced(switched, on=True).states) == ["a"]
    assert list(traced(switched, on=False).states) == ["b"]


def test_states_stay_wide_always_or_with_a_flag():
    @rule
    def careful(p, g, m: signed(wide=True), v: nonneg(wide="exact"), *, lr, exact: static):
        return p - lr * (m + v), m, v

    assert not careful.states["m"].low_bit and careful.states["v"].low_bit
    low_bit = {exact: traced(careful, exact=exact).states["v"].low_bit for exact in (False, True)}
    assert low_bit == {False: True, True: False}


def test_states_have_the_space_of_their_shape():
    @rule(derive={"matrix": lambda ndim: ndim > 1})
    def shaped(
        p, g, full, row: signed(shape=axis(-1), when="matrix"), col: signed(shape=axis(-2), when="matrix"), *,
        matrix: static,
    ):  # fmt: skip
        return p + (row * col if matrix else full), full, 2 * row if matrix else row, 2 * col if matrix else col

    program = traced(shaped, ndim=3, matrix=True)
    assert program.operands == ("p", "g")
    assert program.small_operands == ("row", "col")
    assert {n: node.space for n, node in program.small_writes.items()} == {"row": Space.ROW, "col": Space.COL}
    assert traced(shaped, ndim=1).operands == ("p", "g", "full")


def test_scalar_states_are_numbers_of_the_host():
    @rule
    def counted(p, g, one: scalar, per_group: group, in_all: optimizer, *, lr):
        one = 0.9 * one + 0.1
        return p - lr * one * per_group * g, one, per_group + sum(g * g, "all"), maximum(in_all, lr)

    program = traced(counted)
    assert set(program.host_writes) == {"one", "in_all"}
    assert set(program.deferred_writes) == {"per_group"}
    assert program.operands == ("p", "g")
    values = dict(one=1.0, per_group=2.0, in_all=0.5, lr=0.25)
    assert program.host(*(values[n] for n in program.host_inputs))[1] == (1.0, 0.5)


def test_a_state_that_starts_as_the_gradient_sees_it_in_the_first_step():
    @rule
    def difference(p, g, previous: signed(init="grad"), *, lr):
        return p - lr * (g - previous), g

    node = written(difference, "p")
    choice = next(n for n in node.graph.nodes if n.op == "where")
    assert repr(choice) == "where(truth(number(first)), g, previous)"


def test_a_state_that_is_returned_as_it_came_is_not_written():
    @rule
    def anchored(p, g, p0: weights, *, lr):
        return p - lr * (g + p - p0), p0

    program = traced(anchored)
    assert list(program.writes) == ["p"]
    assert program.operands == ("p", "g", "p0")


def test_a_step_takes_the_gradient_even_if_it_is_not_used():
    @rule
    def decay(p, g, *, lr):
        return p * (1 - lr)

    assert traced(decay).uses_gradient


# ---------------------------------------------------------------- entry points


def test_entries_share_states_and_write_what_they_name():
    @rule
    def with_entry(p, g, m, h: nonneg, *, lr, beta, rho):
        return p - lr * m / maximum(rho * h, 1e-15), m + g, h

    @with_entry.entry(writes=["h"])
    def update(g, h, *, beta):
        return beta * h + (1 - beta) * g * g

    assert update is with_entry
    program = with_entry.program(Trace(entry="update"))
    assert program.name == "with_entry.update"
    assert list(program.writes) == ["h"]
    assert program.operands == ("p", "g", "h")
    assert program.host_inputs == ("beta",)
    assert program.uses_gradient

    @with_entry.entry("flip", writes=["p", "m"])
    def swapped(p, m):
        return m, p

    flip = with_entry.program(Trace(entry="flip"))
    assert not flip.uses_gradient
    assert {n: v.attr for n, v in flip.writes.items()} == {"p": "m", "m": "p"}


def test_entries_are_checked_when_they_are_declared():
    @rule
    def base(p, g, m, *, lr):
        return p - lr * g, m

    with pytest.raises(RuleError, match="writes 'v'; it can write p, m"):
        base.entry(writes=["v"])(lambda p: p)
    with pytest.raises(RuleError, match="takes 'v', which base does not have; it has p, m, g"):
        base.entry("e", writes=["p"])(lambda v: v)

    def odd(p, *, beta):
        return beta * p

    with pytest.raises(RuleError, match="odd takes 'beta', which base does not have; it has lr"):
        base.entry(writes=["p"])(odd)
    with pytest.raises(RuleError, match=r"returns 2 value\(s\), but it has to return 1: the new p"):
        base.entry("e", writes=["p"])(lambda p, g: (p, g))


# ---------------------------------------------------------------- postponed annotations

POSTPONED = """
from __future__ import annotations

from fallline.rules import nonneg, positive, rule, signed, static

@rule
def postponed(p, g, m: signed(when="has_momentum"), v: nonneg, *, lr: positive, has_momentum: static):
    return p - lr * g, m, v

def declare():
    from fallline.rules import weights

    @rule
    def local(p, g, z: weights, *, lr):
        return p - lr * g, z
"""


def test_annotations_may_be_postponed(tmp_path: Path) -> None:
    file = tmp_path / "postponed.py"
    file.write_text(POSTPONED)
    spec = importlib.util.spec_from_file_location("postponed", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.postponed.states == {"m": signed(when="has_momentum"), "v": nonneg}
    assert module.postponed.hypers["lr"] is positive
    with pytest.raises(RuleError, match=r"postponed.py:13: name 'weights' is not defined; annotations must be names"):
        module.declare()


def test_positional_arguments_may_be_positional_only():
    @rule
    def momentum(p, g, m, /, *, lr):
        return p - lr * (m + g), m + g

    assert list(momentum.states) == ["m"]


def test_a_flag_joins_truth_values_from_either_side():
    @rule
    def gated(p, g, *, lr, on: static()):
        return p - lr * where(on & (g > 0), g, where(on | (g < 0), 2 * g, g))

    assert gated.statics["on"].choices == (False, True)
