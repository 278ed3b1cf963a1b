"""The graph that a rule becomes when it is traced.

A node is one mathematical operation.  Equal nodes are one object, so that common subexpressions vanish while the graph
is built, constants are folded, and every node has a space (``space.py``), which decides where it is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallline.rules.node import Node, Number, RuleError
from fallline.rules.operations import HOST_FUNCTIONS, LOGIC
from fallline.rules.space import AXES, REDUCED, Space, join


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A function of whole matrices, which runs between two programs."""

    function: str
    values: Mapping[str, tuple[str, Node]]
    """Arguments with a value per element: the name of the scratch memory in which the function finds each, and leaves
    its new value if it changes it."""
    squares: Mapping[str, Node]
    """States of square matrices, which the function reads and changes in place."""
    numbers: Mapping[str, Node]
    """Numbers of the host.  If there is one named ``when`` and it is 0, the call changes nothing."""
    settings: Mapping[str, Any]

    @property
    def states(self) -> dict[str, str]:
        """The names of the states of square matrices, by argument."""
        return {name: state_of(node) for name, node in self.squares.items()}


def state_of(node: Node) -> str:
    """The state that a value of square matrices is a version of."""
    return str(node.attr if node.op == "operand" else node.attr[0])


class Graph:
    """Builds nodes, so that equal ones are the same object and constants are folded."""

    def __init__(self, ndim: int | None = None) -> None:
        self.ndim = ndim
        """The number of axes of the parameter; None if the rule does not ask for it."""
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], Node] = {}
        self._axes: set[bool] = set()
        """Which rows the rule uses: True for those of view(size0, -1), False for those of matrices."""
        self.wrap_direction: Callable[[Node], Node] | None = None
        self.has_direction = False
        self.calls: list[Call] = []
        self._versions: dict[str, Node] = {}
        """The newest value of each state of square matrices that a call has changed."""

    def _make(self, op: str, args: tuple[Node, ...], attr: Any, space: Space, level: int) -> Node:
        # 0.0 and -0.0 compare equal, but are different constants.
        known_by = attr.hex() if isinstance(attr, float) else attr
        key = (op, tuple(a.index for a in args), type(attr), known_by, space)
        node = self._known.get(key)
        if node is None:
            node = Node(self, op, args, attr, space, level)
            self._known[key] = node
            self.nodes.append(node)
        return node

    def const(self, value: float | bool) -> Node:
        if not isinstance(value, (int, float)):
            raise RuleError(
                f"a rule computes with numbers and its own arguments, got {value!r} of type {type(value).__name__}"
            )
        return self._make("const", (), value if isinstance(value, bool) else float(value), Space.HOST, 0)

    def operand(self, name: str, space: Space) -> Node:
        """A tensor read from memory: the parameter, its gradient, or a state."""
        if space not in (Space.FULL, Space.SQUARES):
            self._index_by(space)
        return self._make("operand", (), name, space, 0)

    def newest(self, state: str) -> Node | None:
        """The newest value of a state of square matrices; None if no call has changed it."""
        return self._versions.get(state)

    def host(self, name: str) -> Node:
        """A number known before the step: hyperparameter, counter, scalar state or shape fact."""
        return self._make("host", (), name, Space.HOST, 0)

    def apply(self, op: str, *values: Number) -> Node:
        """An elementwise operation, simplified where the simpler form is exact."""
        args = tuple(
            self._typed(op, position, v if isinstance(v, Node) else self.const(v)) for position, v in enumerate(values)
        )
        if any(a.space == Space.SQUARES for a in args):
            raise RuleError("square matrices are changed by matrix functions only; arithmetic is not possible on them")
        if all(a.op == "const" for a in args):
            return self.const(HOST_FUNCTIONS[op](*(a.attr for a in args)))
        simpler = self._simplified(op, args)
        return self._elementwise(op, args) if simpler is None else simpler

    def _typed(self, op: str, position: int, value: Node) -> Node:
        """Truth values count as 0 and 1 in arithmetic; a number is no truth value."""
        if op not in ("and", "or", "not") and (op != "where" or position > 0):
            return self.apply("where", value, 1.0, 0.0) if value.is_bool else value
        if not value.is_bool:
            what = "the condition of where" if op == "where" else f"an operand of `{LOGIC[op]}`"
            raise RuleError(f"{what} must be a truth value, such as x > 0 or x != 0, got a number")
        return value

    def _index_by(self, space: Space) -> None:
        """Checks that the parameter has the rows or columns that the rule uses."""
        by_dim0 = space == Space.DIM0
        if by_dim0 and not self.ndim:
            raise RuleError('axis "rows" needs an axis: take the keyword argument `ndim` and use it only if ndim >= 1')
        if not by_dim0 and (self.ndim is None or self.ndim < 2):
            raise RuleError(
                "the axes -1 and -2 need a matrix: take the keyword argument `ndim` and use them only if ndim >= 2"
            )
        self._axes.add(by_dim0)
        if len(self._axes) > 1:
            raise RuleError('a rule can use axis "rows" or the axes -1 and -2, not both for one parameter')

    def _elementwise(self, op: str, args: tuple[Node, ...]) -> Node:
        space = Space.HOST
        for arg in args:
            space = join(space, arg.space)
        if op == "mod" and space != Space.HOST:
            raise RuleError("`%` is for counters and hyperparameters; values of tensors have no remainder here")
        if space != Space.HOST:
            args = tuple(self._truth_in(space, arg) if arg.is_bool else arg for arg in args)
        return self._make(op, args, None, space, max(a.level for a in args))

    def _truth_in(self, space: Space, value: Node) -> Node:
        """A truth value as a loop over ``space`` uses it: stored as a number and cast, unless the loop computes it."""
        if value.op == "const" or value.space == Space.FULL:
            return value
        stored = (
            value.args[0] if value.op == "truth" else self._make("number", (value,), None, value.space, value.level)
        )
        return self._make("truth", (stored,), None, space, value.level)

    def _simplified(self, op: str, args: tuple[Node, ...]) -> Node | None:
        first, last = args[0], args[-1]
        if op == "where":
            if first.op == "const":
                return args[1] if first.attr else args[2]
            return args[1] if args[1] is args[2] else None
        if op == "mul":
            if first.op == "const" and first.attr == 1.0:
                return last
            return first if last.op == "const" and last.attr == 1.0 else None
        if op == "pow" and last.op == "const":
            powers: dict[float, Callable[[], Node]] = {
                1.0: lambda: first,
                2.0: lambda: first * first,
                3.0: lambda: first * first * first,
                0.5: lambda: self.apply("sqrt", first),
                -0.5: lambda: self.apply("rsqrt", first),
                -1.0: lambda: 1.0 / first,
            }
            return powers[last.attr]() if last.attr in powers else None
        if op == "div" and last.space.is_scalar and not first.space.is_scalar:
            # One division per step in float64 replaces one per element, at the cost of half an ulp.
            return first * (1.0 / last)
        if op == "neg" and first.op == "neg":
            return first.args[0]
        return None

    def reduce(self, kind: str, value: Node, axis: Any) -> Node:
        """``kind`` ("sum" or "max") of ``value`` along ``axis``: "tensor", "all", "rows", -1 or -2."""
        if axis not in AXES:
            raise RuleError(f"axis must be {', '.join(map(repr, AXES[:-1]))} or {AXES[-1]!r}, got {axis!r}")
        if value.is_bool:
            value = self.apply("where", value, 1.0, 0.0)
        if value.space.is_scalar:
            raise RuleError(f"{kind} over {axis!r} needs a value per element, got one that is the same for all of them")
        space = REDUCED.get((value.space, axis))
        if space is None:
            raise RuleError(f"a value per {value.space.name.lower()} cannot be reduced over {axis!r}")
        if not space.is_scalar:
            self._index_by(space)
        level = value.level + (value.space == Space.FULL)
        return self._make("reduce", (value,), (kind, axis), space, level)

    def call(
        self,
        function: str,
        values: Mapping[str, Node],
        squares: Mapping[str, Node] | None = None,
        numbers: Mapping[str, Number] | None = None,
        changes: Sequence[str] = (),
        **settings: Any,
    ) -> list[Node]:
        """A call of a matrix function; returns the new values of the arguments that it ``changes``, in this order."""
        squares = squares or {}
        for name, value in values.items():
            if not isinstance(value, Node) or value.space != Space.FULL:
                raise RuleError(f"{function}: {name} must be a value per element, got {value!r}")
        for name, value in squares.items():
            if value.space != Space.SQUARES:
                raise RuleError(f"{function}: {name} must be a state annotated with `squares`, got {value!r}")
            if self._versions.get(state_of(value)) is not None and self._versions[state_of(value)] is not value:
                raise RuleError(f"{function}: {name} has been changed before this call; pass its new value")
        traced = [name for name, setting in settings.items() if isinstance(setting, Node)]
        if traced:
            raise RuleError(f"{function}: {traced[0]} must be known when the rule is traced; annotate it as `static`")
        nodes = {n: v if isinstance(v, Node) else self.const(v) for n, v in (numbers or {}).items()}
        for name, node in nodes.items():
            if node.space != Space.HOST:
                raise RuleError(f"{function}: {name} must be known before the step, as hyperparameters are")
            nodes[name] = self.apply("where", node, 1.0, 0.0) if node.is_bool else node
        place = f"{function}_{len(self.calls)}"
        scratch = {n: (place if len(values) == 1 else f"{place}_{n}", value) for n, value in values.items()}
        self.calls.append(Call(function, scratch, dict(squares), nodes, settings))
        results = []
        for name in changes:
            if name in squares:
                state = state_of(squares[name])
                new = self._make("updated", (), (state, len(self.calls)), Space.SQUARES, 0)
                self._versions[state] = new
                results.append(new)
            else:
                results.append(self.operand(scratch[name][0], Space.FULL))
        return results

    def direction(self, value: Node) -> Node:
        """Marks ``value`` as the direction, and applies the wrapper of directions (a cautious mask) if there is one."""
        self.has_direction = True
        return self.wrap_direction(value) if self.wrap_direction else value
