"""Stages between the passes in C++: scalars and small arrays, in double."""

from __future__ import annotations

from collections.abc import Sequence

from fallline.lower.native.expressions import expression, indent, literal
from fallline.lower.native.slots import Slots
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space

_SIZES = {
    Space.ROW: ("q->batch", "q->rows", "b * q->rows + j"),
    Space.COL: ("q->batch", "q->cols", "b * q->cols + j"),
    Space.DIM0: ("1", "q->rows", "j"),
    Space.BATCH: ("q->batch", "1", "b"),
}


class Stage:
    """Stage ``k`` as a C++ function, in double; small arrays are stored as float32."""

    def __init__(self, program: Program, slots: Slots, k: int):
        self.program, self.slots, self.k = program, slots, k
        self.here: dict[int, str] = {}
        """Nodes that the loop being written computes."""

    def text(self) -> str:
        last = len(self.program.stage_rounds[self.k])
        rounds: list[list[str]] = [[] for _ in range(last + 1)]
        if self.k == 0:
            for node in self.slots.states:
                source = self.program.small_operands.index(node.attr)
                rounds[0] += _over(node.space, [f"{self.vector(node)}[@] = q->state[{source}][@];"])
        for loop in self.slots.loops[self.k]:
            rounds[self.program.round_in_stage(self.k, loop)] += self.compute(loop)
        if self.k == len(self.program.reductions):
            for name, node in self.program.small_writes.items():
                target = self.program.small_operands.index(name)
                space = self.program.states[name].space
                rounds[last] += _over(space, [f"q->state[{target}][@] = (float)({self.value(node)});"])
        if not any(rounds):
            return ""
        lines: list[str] = rounds[0] if last == 0 else []
        for number, inside in enumerate(rounds) if last else ():
            lines += [f"if (fl_in_round(q, {number})) {{", *indent(inside), "}"] if inside else []
        return "\n".join([f"static void @NAME@_stage{self.k}(const fl_small* q) {{", *indent(lines), "}\n"])

    def vector(self, node: Node) -> str:
        return f"q->vec[{self.slots.vector[node.index]}]"

    def compute(self, loop: Sequence[Node]) -> list[str]:
        first = loop[0]
        if first.op == "reduce":
            return self.reduce(first)
        if first.space.is_scalar:
            return [f"q->scalar[{self.slots.scalar[first.index]}] = {self.expression(first)};"]
        body = []
        for i, node in enumerate(loop):
            body.append(f"const double t{i} = {self.expression(node)};")
            self.here[node.index] = f"t{i}"
            if node.index in self.slots.vector:
                body.append(f"{self.vector(node)}[@] = (float)t{i};")
        self.here = {}
        return _over(first.space, body)

    def expression(self, node: Node) -> str:
        return expression(node, [self.value(arg) for arg in node.args])

    def reduce(self, node: Node) -> list[str]:
        (source,), (kind, _) = node.args, node.attr
        start = "0.0" if kind == "sum" else "-HUGE_VAL"
        step = "acc += {0};" if kind == "sum" else "acc = fl_math::maximum(acc, (double){0});"
        outer, inner, index = _SIZES[source.space]
        loop = f"for (int64_t j = 0; j < {inner}; ++j) " + step.format(f"{self.vector(source)}[{index}]")
        if node.space == Space.BATCH:
            body = [f"double acc = {start};", loop, f"{self.vector(node)}[b] = (float)acc;"]
            return [f"for (int64_t b = 0; b < {outer}; ++b) {{", *indent(body), "}"]
        target = f"q->scalar[{self.slots.scalar[node.index]}]"
        return [
            "{",
            f"    double acc = {start};",
            f"    for (int64_t b = 0; b < {outer}; ++b) {loop}",
            f"    {target} = acc;",
            "}",
        ]

    def value(self, node: Node) -> str:
        """``[@]`` stands for the index of the loop around it."""
        if node.op == "const":
            return literal(node.attr, "double")
        if node.is_bool:  # a truth value is stored only as a number
            return f"({self.expression(node)})"
        if node.index in self.here:
            return self.here[node.index]
        if node.space == Space.HOST:
            return f"q->host[{self.slots.host[node.index]}]"
        if node.space.is_scalar:
            return f"q->scalar[{self.slots.scalar[node.index]}]"
        return f"(double){self.vector(node)}[{'b' if node.space == Space.BATCH else '@'}]"


def _over(space: Space, body: Sequence[str]) -> list[str]:
    """A loop over a small array; ``[@]`` in its body becomes the index."""
    outer, inner, index = _SIZES[space]
    head = f"for (int64_t b = 0; b < {outer}; ++b) for (int64_t j = 0; j < {inner}; ++j) {{"
    return [head, *indent([line.replace("[@]", f"[{index}]") for line in body]), "}"]
