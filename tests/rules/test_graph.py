"""Expressions of a rule become nodes, and where they are computed."""

import math
from collections import Counter

from fallline.optimizers import description_of
from fallline.rules import (
    direction,
    finite,
    minimum,
    positive,
    rsqrt,
    rule,
    sqrt,
    sum,
    where,
)
from fallline.rules.graph import Graph
from fallline.rules.space import Space
from fallline.rules.trace import Trace
from tests.rules.tracing import traced, written

# mypy: disable-error-code="no-untyped-def, valid-type"


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
    program = traced(description_of("AdamW").rule)
    operations = Counter(n.op for n in program.pass_nodes(0) if n.op != "operand")
    # m: 2 mul, 1 add; v: 3 mul, 1 add; u: sqrt, mul, add, div; p: 2 mul, 1 sub.
    assert operations == Counter(mul=8, add=3, sqrt=1, div=1, sub=1)
    assert program.reductions == ()
    assert program.elementwise


def test_scalars_of_adamw_are_computed_on_the_host_in_float64():
    program = traced(description_of("AdamW").rule)
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
