"""The functions that a rule may call besides Python's arithmetic and comparisons.

Some have the name of a builtin on purpose (``sum``, ``max``, ``abs``), as in numpy and torch.
"""

from __future__ import annotations

from typing import Any

from fallline.rules.graph import Graph
from fallline.rules.node import Node, Number, RuleError
from fallline.rules.space import Space

Axis = Any
"""``"tensor"`` (the default), ``"all"`` parameters, ``"rows"`` of ``view(size0, -1)``, ``-1`` or ``-2``."""


def _graph(*values: Number) -> Graph:
    for value in values:
        if isinstance(value, Node):
            return value.graph
    raise RuleError("a function of fallline.rules needs at least one argument of the rule")


def _call(op: str, *values: Number) -> Node:
    return _graph(*values).apply(op, *values)


def sqrt(x: Number) -> Node:
    return _call("sqrt", x)


def rsqrt(x: Number) -> Node:
    return _call("rsqrt", x)


def exp(x: Number) -> Node:
    return _call("exp", x)


def log(x: Number) -> Node:
    return _call("log", x)


def tanh(x: Number) -> Node:
    return _call("tanh", x)


def abs(x: Number) -> Node:
    return _call("abs", x)


def sign(x: Number) -> Node:
    """−1, 0 or 1; the sign of NaN is 0, as in torch."""
    return _call("sign", x)


def minimum(a: Number, b: Number) -> Node:
    """The smaller of two values; NaN if one of them is NaN, as in torch."""
    return _call("minimum", a, b)


def maximum(a: Number, b: Number) -> Node:
    """The larger of two values; NaN if one of them is NaN, as in torch."""
    return _call("maximum", a, b)


def where(condition: Number, a: Number, b: Number) -> Node:
    return _call("where", condition, a, b)


def count(x: Node, axis: Axis = "tensor") -> Node:
    """The number of elements of ``x`` that a reduction along ``axis`` combines."""
    facts = {
        (Space.FULL, "tensor"): "numel",
        (Space.FULL, "all"): "total",
        (Space.FULL, "rows"): "row_length",
        (Space.FULL, -1): "cols",
        (Space.FULL, -2): "rows",
        (Space.ROW, -2): "rows",
        (Space.COL, -1): "cols",
        (Space.DIM0, "tensor"): "size0",
        (Space.BATCH, "tensor"): "batch",
    }
    graph = _graph(x)
    if (x.space, axis) in facts:
        return graph.host(facts[x.space, axis])
    if axis == "tensor" and x.space in (Space.ROW, Space.COL):
        return graph.host("batch") * graph.host("rows" if x.space == Space.ROW else "cols")
    raise RuleError(f"a value per {x.space.name.lower()} cannot be reduced over {axis!r}")


def sum(x: Node, axis: Axis = "tensor") -> Node:
    """The sum of ``x`` along ``axis``."""
    return _graph(x).reduce("sum", x, axis)


def max(x: Node, axis: Axis = "tensor") -> Node:
    """The largest ``x`` along ``axis``; NaN if there is a NaN."""
    return _graph(x).reduce("max", x, axis)


def mean(x: Node, axis: Axis = "tensor") -> Node:
    """The mean of ``x`` along ``axis``.  The mean of no elements is 0, so that empty tensors produce no NaN."""
    return sum(x, axis) / maximum(count(x, axis), 1)


def dot(a: Node, b: Node, axis: Axis = "tensor") -> Node:
    return sum(a * b, axis)


def norm(x: Node, axis: Axis = "tensor") -> Node:
    """The Euclidean norm of ``x`` along ``axis``."""
    return sqrt(sum(x * x, axis))


def direction(u: Node) -> Node:
    """Marks the update direction, which lr multiplies, so that an option such as ``cautious`` can wrap it."""
    return _graph(u).direction(u)
