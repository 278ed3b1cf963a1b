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
    assert -(-x) is x  # noqa: B002
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


# ---------------------------------------------------------------- reductions


def test_reductions_have_the_space_of_what_they_leave():
    graph = Graph(ndim=3)
    x = graph.operand("x", Space.FULL)
    row, col = sum(x, -1), sum(x, -2)
    assert [sum(x, a).space for a in ("tensor", "all", -1, -2)] == [Space.TENSOR, Space.ALL, Space.ROW, Space.COL]
    assert sum(row, -2).space == sum(col, -1).space == Space.BATCH
    assert sum(row).space == max(col).space == sum(sum(row, -2)).space == Space.TENSOR
    assert (row * col).space == (row * x).space == Space.FULL
    assert (row * sum(row, -2)).space == Space.ROW
    assert (sum(x) * graph.host("lr")).space == Space.TENSOR
    assert (sum(x) * sum(x, "all")).space == Space.TENSOR

    lead = Graph(ndim=3)
    y = lead.operand("y", Space.FULL)
    assert sum(y, "rows").space == Space.LEAD
    assert max(sum(y, "rows")).space == Space.TENSOR
    assert (y / sum(y, "rows")).space == Space.FULL


def test_means_divide_by_the_number_of_elements():
    graph = Graph(ndim=2)
    x = graph.operand("x", Space.FULL)

    def facts(node: Node) -> set[str]:
        return {n.attr for n in itertools.chain(*(_below(a) for a in node.args)) if n.op == "host"}

    assert facts(mean(x)) == {"numel"}
    assert facts(mean(x, "all")) == {"total"}
    assert facts(mean(x, -1)) == {"cols"}
    assert facts(mean(x, -2)) == {"rows"}
    assert facts(mean(mean(x, -1), -2)) == {"cols", "rows"}
    assert facts(mean(sum(x, -1))) == {"batch", "rows"}


def _below(node: Node) -> list[Node]:
    return [node, *itertools.chain(*(_below(a) for a in node.args))]


def test_passes_and_stages_come_in_the_order_of_their_needs():
    @rule
    def twice_normalised(p, g, *, lr):
        unit = g / norm(g)
        clipped = minimum(unit, 0.5)
        return p - lr * clipped / norm(clipped)

    program = traced(twice_normalised)
    first, second = program.reductions
    assert [n.attr for n in (*first, *second)] == [("sum", "tensor")] * 2
    assert first[0].level == 1
    assert second[0].level == 2
    # The roots and reciprocals follow the reduction and precede the pass that needs them.
    assert [sorted({n.op for n in stage}) for stage in program.stages] == [[], ["div", "sqrt"], ["div", "sqrt"]]
    assert [n.op for n in program.pass_nodes(0)] == ["operand", "mul"]
    assert "minimum" in {n.op for n in program.pass_nodes(1)}
    assert [{"g"}, {"g"}, {"p", "g"}] == [
        {n.attr for n in program.pass_nodes(k) if n.op == "operand"} for k in range(3)
    ]
    assert not program.elementwise


def test_reductions_of_one_level_share_a_pass():
    @rule
    def several(p, g, *, lr):
        return p - lr * g * norm(p) / (norm(g) + max(abs(g)) + dot(g, p) + sum(g, "all"))

    program = traced(several)
    assert len(program.reductions) == 1
    assert len(program.reductions[0]) == 5
    assert program.couples_parameters


def test_a_norm_of_what_will_be_written_is_recomputed_by_the_writing_pass():
    @rule
    def trust(p, g, m, *, lr, beta):
        m = beta * m + (1 - beta) * g
        return p - lr * norm(p) / norm(m) * m, m

    program = traced(trust)
    for k in (0, 1):
        assert program.writes["m"].index in {n.index for n in program.pass_nodes(k)}


def test_the_view_follows_from_the_axes():
    @rule
    def flat(p, g):
        return p - g / norm(g)

    @rule
    def by_rows(p, g, *, ndim):
        return p - g / norm(g, "rows") if ndim else p - g

    @rule
    def matrix(p, g, *, ndim):
        return p - g / norm(g, -1) if ndim > 1 else p - g

    assert traced(flat).view == "flat"
    assert [traced(by_rows, ndim=n).view for n in (0, 1, 2)] == ["flat", "lead", "lead"]
    assert [traced(matrix, ndim=n).view for n in (0, 1, 2, 4)] == ["flat", "flat", "matrix", "matrix"]


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
    def flagged(p, g, m: signed(when="heavy"), *, lr, heavy: static, form: static("a", "b", "c")):
        seen.append((heavy, form))
        return p - lr * g, m

    assert sorted(seen) == [(h, f) for h in (False, True) for f in "abc"]
    # The program is kept: the second time nothing is traced.
    traced(flagged, heavy=True, form="b")
    assert len(seen) == 6


def test_static_arguments_check_their_choices():
    with pytest.raises(ValueError, match="form must be 'a' or 'b', got 'c'"):
        static("a", "b").check("form", "c")
    with pytest.raises(ValueError, match="fancy must be False or True, got 1"):
        static.check("fancy", 1)


def test_flags_can_be_derived_from_hyperparameters():
    @rule(derive={"heavy": lambda momentum: momentum != 0})
    def derived(p, g, buf: signed(when="heavy"), *, lr, momentum, heavy: static):
        if heavy:
            g = buf = momentum * buf + g
        return p - lr * g, buf

    assert derived.trace_for({"lr": 1.0, "momentum": 0.0}, 2) == Trace((("heavy", False),), None)
    assert derived.trace_for({"lr": 1.0, "momentum": 0.9}, 2) == Trace((("heavy", True),), None)
    # A tensor decides too, and gives the same specialisation as a number.
    assert derived.trace_for({"lr": 1.0, "momentum": torch.tensor(0.9)}, 2) == Trace((("heavy", True),), None)


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
    assert set(program.late_writes) == {"per_group"}
    assert program.operands == ("p", "g")
    values = dict(one=1.0, per_group=2.0, in_all=0.5, lr=0.25)
    assert program.host(*(values[n] for n in program.host_inputs))[1] == (1.0, 0.5)


def test_a_state_that_starts_as_the_gradient_sees_it_in_the_first_step():
    @rule
    def difference(p, g, previous: signed(init="grad"), *, lr):
        return p - lr * (g - previous), g

    node = written(difference, "p")
    choice = next(n for n in node.graph.nodes if n.op == "where")
    assert [a.attr for a in choice.args] == ["first", "g", "previous"]


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


# ---------------------------------------------------------------- directions


def test_a_direction_is_the_value_itself_until_something_wraps_it():
    @rule
    def marked(p, g, *, lr):
        return p - lr * direction(g * g)

    @rule
    def plain(p, g, *, lr):
        return p - lr * (g * g)

    assert repr(written(marked, "p")) == repr(written(plain, "p"))
    assert marked.program(Trace(cautious=True)).reductions


def test_a_cautious_direction_keeps_what_agrees_with_the_gradient():
    @rule
    def momentum(p, g, m, *, lr, beta):
        m = beta * m + (1 - beta) * g
        return p - lr * direction(m), m

    program = momentum.program(Trace(cautious=True))
    (reduction,) = program.reductions[0]
    assert reduction.attr == ("sum", "tensor")
    mask = reduction.args[0]
    assert mask.op == "where"
    # m g > 0 is written 0 < m g.
    assert mask.args[0].args[1] is program.writes["m"] * mask.graph.operand("g", Space.FULL)
    # The state is not masked.
    assert program.writes["m"].level == 0


# ---------------------------------------------------------------- what a rule cannot say


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
    (joins_numbers, "what `&` joins must be a truth value, such as x > 0 or x != 0"),
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


def depends_on_no_flag(p, g, m: signed(when="heavy"), *, lr):
    return p - lr * g, m


def starts_as_nothing(p, g, m: signed(init="beta"), *, lr):
    return p - lr * g, m


def starts_as_another_shape(p, g, m: weights(shape=axis(-1)), *, lr, ndim):
    return p - lr * g, m


def has_a_state_per_row(p, g, r: nonneg(shape=axis(-1)), *, lr):
    return p - lr * g, r


def has_a_reserved_state(p, g, step, *, lr):
    return p - lr * g, step


SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (has_a_default, "lr has a default; defaults belong to the optimizer: fallline.optimizer(rule, lr=…)"),
    (has_an_unknown_note, "m is annotated with <class 'int'>; use signed, nonneg, weights, scalar, group or optimizer"),
    (has_an_unknown_range, "lr is annotated with <class 'float'>; use static or a range (nonnegative, positive"),
    (takes_any_number_of_states, "*states is not possible in a rule"),
    (has_no_gradient, "needs the parameter and its gradient as its first two positional arguments"),
    (depends_on_no_flag, "add the keyword argument `heavy: static`"),
    (starts_as_nothing, 'm starts as \'beta\'; it can start as a number, "param", "grad" or a hyperparameter'),
    (starts_as_another_shape, "m starts as 'param' but has another shape; let it start as a number"),
    (has_a_state_per_row, "@rule(derive={'flag': lambda ndim: ndim > 1})"),
    (has_a_reserved_state, "a state cannot be called step; it means something else, rename it"),
]


@pytest.mark.parametrize(("function", "remedy"), SIGNATURES, ids=lambda x: getattr(x, "__name__", ""))
def test_an_impossible_signature_is_told_where_and_what_instead(function: Callable[..., Any], remedy: str) -> None:
    line, says = offence(lambda: rule(function))
    assert line.startswith(f"def {function.__name__}(")
    assert remedy in says


def lengthy(p, g, *, lr, momentum, heavy: static):
    return p - lr * momentum * g


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (dict(betas=("beta1",)), "betas stands for beta1, but beta1 is no argument"),
        (dict(derive={"fancy": lambda lr: lr > 0}), "derive names 'fancy'; add the keyword argument `fancy: static`"),
        (dict(derive={"heavy": lambda mu: mu > 0}), "heavy is derived from mu, which is no argument of the rule"),
        (dict(derive={"heavy": lambda lr, ndim: ndim > 0}), "derive a flag from ndim alone"),
    ],
)
def test_impossible_options_of_the_decorator_are_told(options: dict[str, Any], remedy: str) -> None:
    line, says = offence(lambda: rule(**options)(lengthy))
    assert line.startswith("def lengthy(")
    assert remedy in says


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


# ---------------------------------------------------------------- postponed annotations

POSTPONED = """
from __future__ import annotations

from fallline.rules import nonneg, positive, rule, signed, static

@rule
def postponed(p, g, m: signed(when="heavy"), v: nonneg, *, lr: positive, heavy: static):
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
    assert module.postponed.states == {"m": signed(when="heavy"), "v": nonneg}
    assert module.postponed.hypers["lr"] is positive
    with pytest.raises(RuleError, match=r"postponed.py:13: name 'weights' is not defined; annotations must be names"):
        module.declare()


def test_the_documented_functions_are_those_of_the_language():
    elementwise = {f.__name__ for f in (sqrt, rsqrt, exp, log, tanh, abs, sign, minimum, maximum, where)}
    operators = {"add", "sub", "mul", "div", "pow", "neg", "lt", "le", "eq", "and", "or", "not"}
    assert set(HOST_FUNCTIONS) == elementwise | operators
