"""One value of a rule, which Python's operators combine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Union

from fallline.rules.operations import BOOLEAN_OPS
from fallline.rules.space import Space

if TYPE_CHECKING:
    from fallline.rules.graph import Graph

Number = Union["Node", float, int, bool]


class RuleError(ValueError):
    """An error in a rule; the message says where in the rule's source, and what to write instead."""


class Node:
    """One value of the rule; made by a :class:`Graph`, combined with Python's operators."""

    __slots__ = ("args", "attr", "graph", "index", "is_bool", "level", "op", "space")
    # numpy must not take over `numpy_scalar * node`.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, op: str, args: tuple[Node, ...], attr: Any, space: Space, level: int):
        self.graph, self.op, self.args, self.attr = graph, op, args, attr
        self.space, self.level = space, level
        self.is_bool = op in BOOLEAN_OPS or isinstance(attr, bool) or (op == "host" and attr == "first")
        """Whether the value is a truth value.  One that leaves the loop that computes it is stored as 0 or 1: the graph
        then has the cast ``number`` where it is stored, and ``truth`` where it is used."""
        self.index = len(graph.nodes)

    def __repr__(self) -> str:
        if self.op == "const":
            return repr(self.attr)
        if self.op in ("operand", "host"):
            return str(self.attr)
        inner = ", ".join(map(repr, self.args))
        return f"{self.op}[{self.attr}]({inner})" if self.attr is not None else f"{self.op}({inner})"

    def __add__(self, other: Number) -> Node:
        return self.graph.apply("add", self, other)

    def __radd__(self, other: Number) -> Node:
        return self.graph.apply("add", other, self)

    def __sub__(self, other: Number) -> Node:
        return self.graph.apply("sub", self, other)

    def __rsub__(self, other: Number) -> Node:
        return self.graph.apply("sub", other, self)

    def __mul__(self, other: Number) -> Node:
        return self.graph.apply("mul", self, other)

    def __rmul__(self, other: Number) -> Node:
        return self.graph.apply("mul", other, self)

    def __truediv__(self, other: Number) -> Node:
        return self.graph.apply("div", self, other)

    def __rtruediv__(self, other: Number) -> Node:
        return self.graph.apply("div", other, self)

    def __pow__(self, other: Number) -> Node:
        return self.graph.apply("pow", self, other)

    def __rpow__(self, other: Number) -> Node:
        return self.graph.apply("pow", other, self)

    def __mod__(self, other: Number) -> Node:
        return self.graph.apply("mod", self, other)

    def __neg__(self) -> Node:
        return self.graph.apply("neg", self)

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return self.graph.apply("abs", self)

    def __lt__(self, other: Number) -> Node:
        return self.graph.apply("lt", self, other)

    def __le__(self, other: Number) -> Node:
        return self.graph.apply("le", self, other)

    def __gt__(self, other: Number) -> Node:
        return self.graph.apply("lt", other, self)

    def __ge__(self, other: Number) -> Node:
        return self.graph.apply("le", other, self)

    def __eq__(self, other: object) -> Node:  # type: ignore[override]
        return self.graph.apply("eq", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Node:  # type: ignore[override]
        return self.graph.apply("not", self.graph.apply("eq", self, other))  # type: ignore[arg-type]

    def __and__(self, other: Number) -> Node:
        return self.graph.apply("and", self, other)

    def __rand__(self, other: Number) -> Node:
        return self.graph.apply("and", other, self)

    def __or__(self, other: Number) -> Node:
        return self.graph.apply("or", self, other)

    def __ror__(self, other: Number) -> Node:
        return self.graph.apply("or", other, self)

    def __invert__(self) -> Node:
        return self.graph.apply("not", self)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise RuleError(
            "a rule cannot branch on a traced value; use where(condition, a, b), "
            "or annotate the argument as `static` if it is a flag of the group"
        )

    def _no_number(self, *_: object) -> NoReturn:
        raise RuleError(
            "a traced value has no number yet; use the functions of fallline.rules "
            "(sqrt, exp, log, tanh, sign, minimum, maximum, where, …) instead of math or numpy"
        )

    __float__ = __int__ = __index__ = __round__ = __floor__ = __ceil__ = __trunc__ = _no_number

    def __iter__(self) -> NoReturn:
        raise RuleError("a traced value stands for one element and cannot be iterated or indexed")
