"""The places of a program's scalars and small arrays, and the loops in which a stage computes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fallline.rules.node import Node
from fallline.rules.program import Program, reachable
from fallline.rules.space import Space


class Slots:
    """The layout that emitter and launcher share.  A small array has a slot only if it leaves the loop that computes
    it; a value that only this loop needs is one number at a time."""

    def __init__(self, program: Program):
        self.loops = [_by_round(program, k) for k in range(len(program.stages))]
        """For each stage and round, the nodes computed together: arrays of one shape in one loop, others alone."""
        finals = (*program.small_writes.values(), *program.writes.values(), *program.deferred_writes.values())
        everyone = reachable(finals)
        self.states = [n for n in everyone if n.op == "operand" and n.attr in program.small_operands]
        """Reduced states that are read."""
        loop_of = {
            node.index: (k, i) for k, loops in enumerate(self.loops) for i, loop in enumerate(loops) for node in loop
        }
        kept = {node.index for node in finals}
        for node in everyone:
            if not _is_inlined(node):
                own = loop_of.get(node.index)
                kept.update(
                    a.index for a in stored_args(node) if node.op == "reduce" or loop_of.get(a.index, ()) != own
                )
        small = {n.index: n for nodes in (*program.stages, *program.reductions) for n in nodes if not n.is_bool}
        ordered = [*self.states, *(small[i] for i in sorted(small))]
        self.host = {n.index: i for i, n in enumerate(program.host_values)}
        self.scalars = [n for n in ordered if n.space.is_scalar]
        self.vectors = [n for n in ordered if not n.space.is_scalar and n.index in kept]
        self.scalar = {n.index: i for i, n in enumerate(self.scalars)}
        self.vector = {n.index: i for i, n in enumerate(self.vectors)}
        # Among the values that passes read, those that are one number for a whole segment follow the scalars.
        in_passes = {a.index for n in everyone if n.space == Space.FULL for a in n.args}
        in_passes.update(node.index for node in program.writes.values())
        read = [n for n in self.vectors if n.index in in_passes]
        per_segment = [n for n in read if n.space != Space.COL]
        self.segment = {n.index: i for i, n in enumerate(per_segment)}
        self.segment_vectors = [self.vector[n.index] for n in per_segment]
        columns = [n for n in read if n.space == Space.COL]
        self.column = {n.index: i for i, n in enumerate(columns)}
        self.column_vectors = [self.vector[n.index] for n in columns]

    def in_segment(self, node: Node) -> int | None:
        """The index of a value in ``fl_segment.s``; 0 is the gradient's factor."""
        if node.index in self.host:
            return 1 + self.host[node.index]
        if node.index in self.scalar:
            return 1 + len(self.host) + self.scalar[node.index]
        if node.index in self.segment:
            return 1 + len(self.host) + len(self.scalars) + self.segment[node.index]
        return None


def _by_round(program: Program, k: int) -> list[Sequence[Node]]:
    loops = stage_loops(node for node in program.stages[k] if not node.is_bool)
    return sorted(loops, key=lambda loop: program.round_in_stage(k, loop))


def _is_inlined(node: Node) -> bool:
    """Whether the node is a truth value of a stage, which is written into the expressions that use it."""
    return node.is_bool and node.space != Space.FULL


def stored_args(node: Node) -> list[Node]:
    """The values that an operation reads, through the truth values in its expression."""
    return [found for arg in node.args for found in (stored_args(arg) if _is_inlined(arg) else [arg])]


def stage_loops(nodes: Iterable[Node]) -> list[Sequence[Node]]:
    """A stage's nodes, ordered so that each comes after its arguments and nodes of one shape are together."""
    pending = {node.index: node for node in nodes}
    loops: list[Sequence[Node]] = []
    while pending:
        first = next(iter(pending.values()))
        loop = {first.index: first}
        if _is_array(first):
            for node in pending.values():
                ready = all(arg.index in loop or arg.index not in pending for arg in stored_args(node))
                if ready and node.space == first.space and _is_array(node):
                    loop[node.index] = node
        loops.append(tuple(loop.values()))
        for index in loop:
            del pending[index]
    return loops


def _is_array(node: Node) -> bool:
    """Whether the node is computed for each element of a small array."""
    return not node.space.is_scalar and node.op != "reduce"
