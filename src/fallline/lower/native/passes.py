"""Passes over the elements in C++: one loop each, all in float32."""

from __future__ import annotations

from collections.abc import Sequence

from fallline.lower.native.expressions import converted, expression, indent, literal
from fallline.lower.native.slots import Slots
from fallline.rules.graph import Node, Space
from fallline.rules.program import Program


class Pass:
    """Pass ``k`` as a C++ function: one loop over the elements of a segment."""

    index = "i"

    def __init__(self, program: Program, slots: Slots, k: int):
        self.program, self.slots, self.k = program, slots, k
        self.head: dict[str, None] = {}
        self.body: list[str] = []
        # Counted here, not over the whole graph: forms of a rule that differ on the host only have the same text.
        self.names = {node.index: f"t{i}" for i, node in enumerate(program.pass_nodes(k))}

    def text(self) -> str:
        if not self.program.writes:
            return ""
        for node in self.program.pass_nodes(self.k):
            self.compute(node)
        for name, node in self.program.writes.items():
            self.write(name, self.value(node))
        return self.function(f"pass{self.k}", self.loop())

    def function(self, name: str, loop: Sequence[str]) -> str:
        head = "const int64_t n = seg->n; const float* s = seg->s; (void)s;"
        lines = indent([head, *self.head, *loop])
        return "\n".join([f"static void @NAME@_{name}(const fl_segment* seg) {{", *lines, "}\n"])

    def loop(self) -> list[str]:
        return ["#pragma omp simd", "for (int64_t i = 0; i < n; ++i) {", *indent(self.body), "}"]

    def write(self, name: str, value: str) -> None:
        self.body.append(f"{self.operand(name)}[{self.index}] = {value};")

    def load(self, name: str) -> str:
        return f"{self.operand(name)}[{self.index}]"

    def operand(self, name: str) -> str:
        io = self.program.operands.index(name)
        self.head[f"float* __restrict o{io} = seg->io[{io}];"] = None
        return f"o{io}"

    def compute(self, node: Node) -> None:
        if node.op == "operand":
            factor = ""
            if node.attr == self.program.grad:
                # Unscaling, clipping and maximize are one factor; by 1 it changes nothing, not even a NaN.
                self.head["const float grad_factor = s[0];"] = None
                factor = " * grad_factor"
            self.body.append(f"const auto {self.names[node.index]} = {self.load(node.attr)}{factor};")
            return
        wants_bool = node.op in ("and", "or", "not")
        args = []
        for position, arg in enumerate(node.args):
            condition = wants_bool or (node.op == "where" and position == 0)
            args.append(self.value(arg, condition))
        # Not a type but `auto`: the same text computes on a float and on a vector of them.
        self.body.append(f"const auto {self.names[node.index]} = {expression(node, args)};")

    def value(self, node: Node, wants_bool: bool = False) -> str:
        if node.op == "const":
            return converted(literal(node.attr, "float"), isinstance(node.attr, bool), wants_bool)
        if node.space == Space.FULL:
            return converted(self.names[node.index], node.is_bool, wants_bool)
        if node.space == Space.COL:
            column = self.slots.column[node.index]
            self.head[f"const float* __restrict v{column} = seg->col[{column}];"] = None
            return converted(f"v{column}[{self.index}]", False, wants_bool)
        at = self.slots.in_segment(node)
        self.head[f"const float s{at} = s[{at}];"] = None
        return converted(f"s{at}", False, wants_bool)


class ReducingPass(Pass):
    """A pass that only reads: what is reduced goes to blocks in L1, which are summed in a fixed order."""

    index = "base + i"

    def text(self) -> str:
        for node in self.program.pass_nodes(self.k):
            self.compute(node)
        blocks, after = [], []
        out = col = 0
        for node in self.program.reductions[self.k]:
            value, is_sum = self.value(node.args[0]), node.attr[0] == "sum"
            if node.space == Space.COL:
                self.head[f"double* __restrict c{col} = seg->col_out[{col}];"] = None
                cell = f"c{col}[base + i]"
                self.body.append(
                    f"{cell} += {value};" if is_sum else f"{cell} = fl_math::maximum({cell}, (double){value});"
                )
                col += 1
            else:
                blocks.append(f"float r{out}[256];")
                self.body.append(f"r{out}[i] = {value};")
                target, block = f"seg->out[{out}]", f"fl_math::block_{node.attr[0]}(r{out}, m)"
                after.append(f"{target} += {block};" if is_sum else f"{target} = fl_math::maximum({target}, {block});")
                out += 1
        loop = [
            *blocks,
            "for (int64_t base = 0; base < n; base += 256) {",
            "    const int64_t m = n - base < 256 ? n - base : 256;",
            "#pragma omp simd",
            "    for (int64_t i = 0; i < m; ++i) {",
            *indent(indent(self.body)),
            "    }",
            *indent(after),
            "}",
        ]
        return self.function(f"pass{self.k}", loop)
