"""Reductions: the spaces they leave, passes and stages."""

import itertools

from fallline.rules import (
    abs,
    dot,
    max,
    mean,
    minimum,
    norm,
    rule,
    sum,
)
from fallline.rules.graph import Graph
from fallline.rules.node import Node
from fallline.rules.space import Space
from tests.rules.tracing import traced

# mypy: disable-error-code="no-untyped-def, valid-type"


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

    by_dim0 = Graph(ndim=3)
    y = by_dim0.operand("y", Space.FULL)
    assert sum(y, "rows").space == Space.DIM0
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
    assert [traced(by_rows, ndim=n).view for n in (0, 1, 2)] == ["flat", "dim0", "dim0"]
    assert [traced(matrix, ndim=n).view for n in (0, 1, 2, 4)] == ["flat", "flat", "matrix", "matrix"]
