"""A rule that calls matrix functions, as programs with calls between them.

A matrix function takes a whole matrix, so it cannot be a part of a pass over elements.  The equations before it become
one program, which leaves the function's argument in scratch memory, and those after it another, which reads the result
from there.  Each is an ordinary program, which any lowering runs; it computes everything that it needs from the
parameter, the gradient, the states and the results of earlier calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fallline.rules.annotations import State
from fallline.rules.graph import Call, Graph
from fallline.rules.node import Node, RuleError
from fallline.rules.program import Program, assemble, program_name, reachable
from fallline.rules.space import Space

if TYPE_CHECKING:
    from fallline.rules.rule import Rule
    from fallline.rules.trace import Trace

SCRATCH = State("signed", wide=True)
"""The memory of a call, as programs see it: a float32 tensor of the parameter's shape, in every format."""


@dataclasses.dataclass(frozen=True, eq=False)
class Link:
    """One program of a chain, and the calls that follow it."""

    program: Program
    host_values: tuple[int, ...]
    """Where the program's scalars are among those of the chain."""
    calls: tuple[Call, ...]
    numbers: tuple[Mapping[str, int], ...]
    """For each call, where its numbers are among the scalars of the chain."""


@dataclasses.dataclass(frozen=True, eq=False)
class Chain(Program):
    """Programs that run one after another.  The fields of a program describe all of them together."""

    links: tuple[Link, ...] = ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return tuple(link.program for link in self.links)

    @property
    def elementwise(self) -> bool:
        return False

    @property
    def scratch(self) -> tuple[str, ...]:
        """The names of the tensors in which calls find and leave values."""
        return tuple(name for link in self.links for call in link.calls for name, _ in call.values.values())


def assemble_chain(
    rule: Rule, trace: Trace, graph: Graph, states: Mapping[str, State], written: Mapping[str, Node]
) -> Chain:
    order = _Order(graph)
    last = 1 + max(order.calls)
    _check_squares(graph, states, written)
    host = {name: node for name, node in written.items() if _is_host(name, node, states)}
    passing = {n: node for n, node in written.items() if n not in host and node.space != Space.SQUARES}
    place = _places(order, passing, last)
    scratch = {name: SCRATCH for call in graph.calls for name, _ in call.values.values()}
    name = program_name(rule, trace)
    programs, calls = [], []
    for k in range(last + 1):
        after = tuple(call for call, at in zip(graph.calls, order.calls, strict=True) if at == k)
        here = {n: node for n, node in passing.items() if place[n] == k}
        here |= {where: value for call in after for where, value in call.values.values()}
        programs.append(assemble(rule, trace, {**states, **scratch}, here, f"{name}.{k + 1}"))
        calls.append(after)
    if any(program.couples_parameters for program in programs):
        raise RuleError("a rule that calls matrix functions cannot reduce over all parameters")
    whole = assemble(rule, trace, states, host, name)  # the scalar states that are known before the first pass
    values = {node.index: node for program in programs for node in program.host_values}
    values |= {node.index: node for call in graph.calls for node in call.numbers.values()}
    position = {index: k for k, index in enumerate(values)}
    roots = (*values.values(), *whole.host_writes.values())
    return Chain(
        name=name,
        trace=trace,
        param=rule.param_name,
        grad=rule.grad_name,
        states=dict(states),
        operands=_union(n for program in programs for n in program.operands if n not in scratch),
        small_operands=_union(n for program in programs for n in program.small_operands),
        host_inputs=tuple(sorted({node.attr for node in reachable(roots) if node.op == "host"})),
        host_values=tuple(values.values()),
        stages=(),
        reductions=tuple(level for program in programs for level in program.reductions),
        writes={n: node for program in programs for n, node in program.writes.items() if n not in scratch},
        small_writes={n: node for program in programs for n, node in program.small_writes.items()},
        host_writes=whole.host_writes,
        deferred_writes={n: node for program in programs for n, node in program.deferred_writes.items()},
        view="flat",
        links=tuple(
            Link(
                program,
                tuple(position[node.index] for node in program.host_values),
                after,
                tuple({n: position[node.index] for n, node in call.numbers.items()} for call in after),
            )
            for program, after in zip(programs, calls, strict=True)
        ),
    )


class _Order:
    """When everything is known: ``calls`` has, for each call, the number of the program that it follows."""

    def __init__(self, graph: Graph):
        results = {where: k for k, call in enumerate(graph.calls) for where, _ in call.values.values()}
        self.calls: list[int] = []
        self.roots: dict[int, list[Node]] = {}
        """The arguments that each program prepares for calls."""
        self._of: dict[int, int] = {}
        used: dict[str, int] = {}
        nodes = iter(graph.nodes)  # arguments come before the nodes that use them
        known = -1
        for call in graph.calls:
            wanted = [value for _, value in call.values.values()]
            while known < max((node.index for node in wanted), default=-1):
                known = self._place(next(nodes), results)
            after = [self.of(value) for value in wanted]
            after += [used.get(state, 0) for state in call.states.values()]
            self.calls.append(max(after, default=0))
            used |= dict.fromkeys(call.states.values(), self.calls[-1])
            self.roots.setdefault(self.calls[-1], []).extend(wanted)
        for node in nodes:
            self._place(node, results)

    def _place(self, node: Node, results: Mapping[str, int]) -> int:
        found = max((self._of[arg.index] for arg in node.args), default=0)
        if node.op == "operand" and node.attr in results:
            found = 1 + self.calls[results[node.attr]]
        self._of[node.index] = found
        return node.index

    def of(self, node: Node) -> int:
        """The number of the first program that can compute a node."""
        return self._of[node.index]


def _check_squares(graph: Graph, states: Mapping[str, State], written: Mapping[str, Node]) -> None:
    """States of square matrices are changed in place, so a rule can only return their newest value."""
    for name, state in states.items():
        if state.space == Space.SQUARES and name in written:
            node, newest = written[name], graph.newest(name)
            if node is not newest and not (newest is None and node.op == "operand" and node.attr == name):
                raise RuleError(f"returns another value for {name} than the one that matrix functions gave it")


def _places(order: _Order, written: Mapping[str, Node], last: int) -> dict[str, int]:
    """The program that writes each value: the first that can, unless a later one still needs the old value."""
    place = {name: order.of(node) for name, node in written.items()}
    while True:
        late = [name for name, k in place.items() if k < last and name in _read_after(k, place, order, written)]
        if not late:
            return place
        place |= dict.fromkeys(late, last)


def _read_after(k: int, place: Mapping[str, int], order: _Order, written: Mapping[str, Node]) -> set[Any]:
    """The operands that programs after program ``k`` read."""
    roots = [node for after, nodes in order.roots.items() if after > k for node in nodes]
    roots += [written[name] for name, at in place.items() if at > k]
    return {node.attr for node in reachable(roots) if node.op == "operand"}


def _is_host(name: str, node: Node, states: Mapping[str, State]) -> bool:
    """Whether the value is a scalar state, or the counter, and known before the first pass."""
    state = states.get(name)
    return node.space == Space.HOST and state is not None and state.is_scalar


def _union(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
