"""A traced rule in the order in which a lowering executes it.

``host`` comes first: all scalar work that depends on hyperparameters, counters and scalar states, in
float64, once per step and set of equal values.  Then, for k = 0 … last, come *stage* k (small arrays and
scalars that follow from finished reductions) and *pass* k over the elements.  Every pass but the last
only reads and computes reductions; the last recomputes and writes, so that a low-bit state and a norm
computed from it cannot disagree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fallline.rules.annotations import State
from fallline.rules.node import Node, RuleError
from fallline.rules.operations import CASTS, HOST_FUNCTIONS
from fallline.rules.space import SMALL, Space

if TYPE_CHECKING:
    from fallline.rules.rule import Rule
    from fallline.rules.trace import Trace


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    name: str
    trace: Trace
    param: str
    grad: str
    states: Mapping[str, State]
    """The states of this specialisation."""
    operands: tuple[str, ...]
    """Full-size tensors in memory order of the kernels: the parameter, the gradient, full-size states."""
    small_operands: tuple[str, ...]
    """Reduced states (a value per row or column)."""
    host_inputs: tuple[str, ...]
    host_values: tuple[Node, ...]
    """Scalars of the host that passes and stages read: one set of numbers per (group, step value)."""
    stages: tuple[tuple[Node, ...], ...]
    reductions: tuple[tuple[Node, ...], ...]
    """Pass k computes ``reductions[k]``; the last pass has no entry."""
    writes: Mapping[str, Node]
    small_writes: Mapping[str, Node]
    host_writes: Mapping[str, Node]
    """Scalar states known before the first pass."""
    deferred_writes: Mapping[str, Node]
    """Scalar states that follow from reductions."""
    view: str
    """How elements are indexed: "flat", "matrix" (batch, rows, cols) or "dim0" (size0, rest)."""

    @property
    def parts(self) -> tuple[Program, ...]:
        """The programs that kernels are made of; a program with calls of matrix functions consists of several."""
        return (self,)

    @property
    def elementwise(self) -> bool:
        """Whether one pass without reductions and small arrays suffices, so that layout and grouping do not matter."""
        return not self.reductions and not self.small_operands

    @functools.cached_property
    def uses_gradient(self) -> bool:
        return self.grad in self.operands

    @functools.cached_property
    def stage_rounds(self) -> tuple[tuple[tuple[Node, ...], ...], ...]:
        """For each stage, its reductions of small arrays by round; a round needs the results of the earlier ones.

        If a parameter is in pieces, such an array may be, too; then the results of the pieces are joined after a round.
        """
        return tuple(_rounds(nodes) for nodes in self.stages)

    def round_in_stage(self, k: int, nodes: Iterable[Node]) -> int:
        """The number of rounds of stage ``k`` after which all these nodes can be computed."""
        depth = _depths(self.stages[k])
        return max((depth[node.index] for node in nodes), default=0)

    @functools.cached_property
    def over_all(self) -> dict[int, int]:
        """The reductions over all parameters: index of the node → its position among them."""
        nodes = [node for level in self.reductions for node in level if node.space == Space.ALL]
        return {node.index: position for position, node in enumerate(nodes)}

    @functools.cached_property
    def couples_parameters(self) -> bool:
        """Whether a reduction runs over all parameters, so that all of them must step together."""
        return bool(self.over_all)

    def pass_nodes(self, k: int) -> list[Node]:
        """The full-size nodes that pass ``k`` computes, in order."""
        if k < len(self.reductions):
            roots = [arg for node in self.reductions[k] for arg in node.args]
        else:
            roots = list(self.writes.values())
        return reachable(roots, lambda node: node.space == Space.FULL)

    @functools.cached_property
    def host(self) -> Callable[..., tuple[tuple[float, ...], tuple[float, ...]]]:
        """``host(*values of host_inputs)`` → the numbers of ``host_values``, and those of ``host_writes``.

        Python's own operators are tried first, since a step of a small model is not much longer than a few calls; where
        they raise, the functions that follow IEEE compute everything again.
        """
        inputs = ", ".join(f"_{name}" for name in self.host_inputs)
        source = (
            f"def careful({inputs}):\n{self._host_lines({}, '    ')}\n"
            f"def host({inputs}):\n    try:\n{self._host_lines(PLAIN_ON_HOST, '        ')}"
            f"    except (ArithmeticError, ValueError):\n        return careful({inputs})\n"
        )
        scope: dict[str, Any] = {f"do_{op}": function for op, function in (HOST_FUNCTIONS | CASTS).items()}
        scope.update(math=math, inf=math.inf, nan=math.nan)
        exec(source, scope)
        return scope["host"]

    def _host_lines(self, forms: Mapping[str, str], indent: str) -> str:
        """The statements of ``host``; ``forms`` has the operations that are not calls of their function."""
        lines = []
        for node in reachable((*self.host_values, *self.host_writes.values())):
            if node.op in ("const", "host"):
                continue
            args = [_host_name(a) for a in node.args]
            value = forms[node.op].format(*args) if node.op in forms else f"do_{node.op}({', '.join(args)})"
            lines.append(f"{indent}t{node.index} = {value}\n")
        values = "".join(f"{_host_name(n)}, " for n in self.host_values)
        writes = "".join(f"{_host_name(n)}, " for n in self.host_writes.values())
        return "".join((*lines, f"{indent}return ({values}), ({writes})\n"))


PLAIN_ON_HOST = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "pow": "math.pow({}, {})",
    "neg": "-({})",
    "sqrt": "math.sqrt({})",
    "rsqrt": "1.0 / math.sqrt({})",
    "where": "{1} if {0} else {2}",
    "minimum": "{0} if {0} < {1} or {0} != {0} else {1}",
    "maximum": "{0} if {0} > {1} or {0} != {0} else {1}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "eq": "{} == {}",
}
"""Operations as Python writes them, which differ from those that follow IEEE only in that they may raise."""


def _host_name(node: Node) -> str:
    if node.op == "const":
        return repr(node.attr)
    return f"_{node.attr}" if node.op == "host" else f"t{node.index}"


def reachable(roots: Iterable[Node], through: Callable[[Node], bool] = lambda node: True) -> list[Node]:
    """The nodes that ``roots`` need, including themselves, each after its arguments.  Nodes that ``through`` refuses
    are left out, and so are those that only they need."""
    found: dict[int, Node] = {}
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.index not in found and through(node):
            found[node.index] = node
            pending.extend(node.args)
    return [found[i] for i in sorted(found)]


def _depths(stage: Sequence[Node]) -> dict[int, int]:
    """For each node of a stage, the number of rounds of small reductions that it needs."""
    found: dict[int, int] = {}
    for node in stage:
        needs = (found[a.index] + (a.op == "reduce") for a in node.args if a.index in found)
        found[node.index] = max(needs, default=0)
    return found


def _rounds(stage: Sequence[Node]) -> tuple[tuple[Node, ...], ...]:
    depth = _depths(stage)
    reductions = [node for node in stage if node.op == "reduce"]
    count = 1 + max((depth[node.index] for node in reductions), default=-1)
    return tuple(tuple(node for node in reductions if depth[node.index] == k) for k in range(count))


def _is_pass(node: Node) -> bool:
    """Whether the node is a reduction that needs a pass over the elements."""
    return node.op == "reduce" and node.args[0].space == Space.FULL


def _levels(needed: Sequence[Node], last: int) -> dict[int, int]:
    """The number of passes after which each node is known.  A reduction whose result is not needed at once waits for
    the pass that reads the most of its operands anyway."""
    deadline = dict.fromkeys((node.index for node in needed), last)
    for node in reversed(needed):
        limit = node.level - 1 if _is_pass(node) else deadline[node.index]
        for arg in node.args:
            deadline[arg.index] = min(deadline[arg.index], limit)

    def reads(node: Node) -> set[Any]:
        return {n.attr for n in reachable(node.args) if n.op == "operand" and n.space == Space.FULL}

    # Reductions that are needed at once decide which operands a pass reads.
    read: dict[int, set[Any]] = {k: set() for k in range(1, last + 1)}
    for node in needed:
        if _is_pass(node) and (deadline[node.index] == node.level or node.space == Space.ALL):
            read[node.level] |= reads(node)
    level: dict[int, int] = {}
    for node in needed:
        if not _is_pass(node):
            level[node.index] = max((level[arg.index] for arg in node.args), default=0)
        elif node.space == Space.ALL:
            level[node.index] = node.level
        else:
            choices = range(node.level, deadline[node.index] + 1)
            level[node.index] = min(choices, key=lambda k: len(reads(node) - read[k]))
            read[level[node.index]] |= reads(node)
    return level


def assemble(
    rule: Rule, trace: Trace, states: Mapping[str, State], written: Mapping[str, Node], name: str | None = None
) -> Program:
    writes, small_writes, host_writes, deferred_writes = _sort_writes(rule, states, written)
    needed = reachable(node for kind in (writes, small_writes, host_writes, deferred_writes) for node in kind.values())

    last = max((node.level for node in needed), default=0)
    level = _levels(needed, last)
    passes = [node for node in needed if _is_pass(node)]
    reductions = tuple(tuple(n for n in passes if level[n.index] == k + 1) for k in range(last))
    stages = tuple(
        tuple(n for n in needed if n.space in SMALL and level[n.index] == k and n.op != "operand" and not _is_pass(n))
        for k in range(last + 1)
    )
    # Nodes outside the host that read a number of the host directly.  They come in the order of use, so that forms
    # of a rule that differ only on the host have the same kernel.
    consumers = [n for n in needed if n.space != Space.HOST]
    read = {a.index: a for n in consumers for a in n.args if a.space == Space.HOST and a.op != "const"}
    for node in (*writes.values(), *small_writes.values()):
        if node.space == Space.HOST and node.op != "const":
            read[node.index] = node
    used = {n.attr for n in needed if n.op == "operand"}
    operands = tuple(
        name
        for name in (rule.param_name, rule.grad_name, *(n for n, s in states.items() if s.shape is None))
        # A step skips parameters without a gradient even if its equations do not use the gradient.
        if name == rule.param_name or name in used or name in writes or (name == rule.grad_name and not trace.entry)
    )
    spaces = {n.space for n in needed}
    view = "dim0" if Space.DIM0 in spaces else "matrix" if spaces & {Space.ROW, Space.COL} else "flat"
    host_values = tuple(read.values())
    host_roots = (*host_values, *host_writes.values())
    return Program(
        name=name or program_name(rule, trace),
        trace=trace,
        param=rule.param_name,
        grad=rule.grad_name,
        states=dict(states),
        operands=operands,
        small_operands=tuple(n for n, s in states.items() if s.space in SMALL and (n in used or n in small_writes)),
        host_inputs=tuple(sorted({n.attr for n in reachable(host_roots) if n.op == "host"})),
        host_values=host_values,
        stages=stages,
        reductions=reductions,
        writes=writes,
        small_writes=small_writes,
        host_writes=host_writes,
        deferred_writes=deferred_writes,
        view=view,
    )


def program_name(rule: Rule, trace: Trace) -> str:
    return rule.name if trace.entry is None else f"{rule.name}.{trace.entry}"


def _sort_writes(
    rule: Rule, states: Mapping[str, State], written: Mapping[str, Node]
) -> tuple[dict[str, Node], dict[str, Node], dict[str, Node], dict[str, Node]]:
    writes: dict[str, Node] = {}
    small: dict[str, Node] = {}
    host: dict[str, Node] = {}
    deferred: dict[str, Node] = {}
    for name, node in written.items():
        state = states.get(name)
        if node.is_bool:
            raise RuleError(f"returns a truth value for {name}; use where(condition, 1.0, 0.0)")
        if node.op in ("operand", "host") and node.attr == name:
            continue  # a state that is returned unchanged
        if name not in states and name != rule.param_name:
            if node.space != Space.HOST:  # the counter, which only an entry point may set
                raise RuleError(f"{name} is a number of steps; it cannot depend on tensors, only on numbers")
            host[name] = node
        elif state is not None and state.is_scalar:
            widest = Space.TENSOR if state.shape == "scalar" else Space.ALL
            if node.space > widest:
                raise RuleError(f"{name} is one number per {state.shape}, but its new value varies more than that")
            (host if node.space == Space.HOST else deferred)[name] = node
        elif state is not None and state.shape is not None:
            if node.space not in (state.space, Space.BATCH) and not node.space.is_scalar:
                raise RuleError(f"{name} has a value per {state.space.name.lower()}, but its new value does not")
            small[name] = node
        else:
            writes[name] = node
    return writes, small, host, deferred
