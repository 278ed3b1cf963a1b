"""Passes over the elements in C++: one loop each, all in float32."""

from __future__ import annotations

from collections.abc import Sequence

from fallline.lower.native.expressions import expression, indent, literal
from fallline.lower.native.slots import Slots
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space


class Pass:
    """Pass ``k`` as a C++ function: one loop over the elements of a segment."""

    def __init__(self, program: Program, slots: Slots, k: int):
        self.program, self.slots, self.k = program, slots, k
        self.head: dict[str, None] = {}
        self.operands: dict[str, None] = {}
        self.body: list[str] = []
        # Names are counted per pass, so that forms of a rule that differ only on the host have the same text.
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
        return [
            # Whole strips have a length that the compiler knows; the rest is one more call.
            "const auto compute = [&](int64_t from, int64_t to) __attribute__((always_inline)) {",
            "#pragma omp simd",
            "    for (int64_t i = from; i < to; ++i) {",
            *indent(indent(self.body)),
            "    }",
            "};",
            "int64_t at = 0;",
            "for (; at + fl_memory::STRIP <= n; at += fl_memory::STRIP) {",
            "    if (seg->ahead) {",
            *indent(indent(self.fetches("at", "fl_memory::STRIP", "seg->ahead"))),
            "    }",
            "    compute(at, at + fl_memory::STRIP);",
            "}",
            "compute(at, n);",
        ]

    def fetches(self, at: str, count: str, ahead: str) -> list[str]:
        """Requests to fetch the operands of later elements, made at the ``count`` elements from ``at`` on."""
        return [f"fl_memory::fetch_ahead<{count}>({operand} + {at}, {ahead});" for operand in self.operands]

    def write(self, name: str, value: str) -> None:
        self.body.append(f"{self.operand(name)}[i] = {value};")

    def load(self, name: str) -> str:
        return self.element(self.operand(name))

    def element(self, array: str) -> str:
        return f"{array}[i]"

    def operand(self, name: str) -> str:
        io = self.program.operands.index(name)
        self.head[f"float* __restrict o{io} = seg->io[{io}];"] = None
        self.operands[f"o{io}"] = None
        return f"o{io}"

    def compute(self, node: Node) -> None:
        if node.op == "operand":
            factor = ""
            if node.attr == self.program.grad:
                # Unscaling, clipping and maximize are one factor; a factor of 1 changes nothing, not even a NaN.
                self.head["const float grad_factor = s[0];"] = None
                factor = " * grad_factor"
            self.body.append(f"const auto {self.names[node.index]} = {self.load(node.attr)}{factor};")
            return
        # With `auto` in place of a type, the same text computes on a float and on a vector of floats.
        computed = expression(node, [self.value(arg) for arg in node.args])
        self.body.append(f"const auto {self.names[node.index]} = {computed};")

    def value(self, node: Node) -> str:
        if node.op == "const":
            return literal(node.attr, "float")
        if node.space == Space.FULL:
            return self.names[node.index]
        if node.space == Space.COL:
            column = self.slots.column[node.index]
            self.head[f"const float* __restrict v{column} = seg->col[{column}];"] = None
            return self.element(f"v{column}")
        at = self.slots.in_segment(node)
        self.head[f"const float s{at} = s[{at}];"] = None
        return f"s{at}"


_KINDS = {"sum": "fl_vec::Sum", "max": "fl_vec::Max"}


class ReducingPass(Pass):
    """A pass that only reads: lanes of vectors accumulate in registers, in an order that no instruction set changes."""

    def __init__(self, program: Program, slots: Slots, k: int):
        super().__init__(program, slots, k)
        reductions = program.reductions[k]
        self.by_column = [node for node in reductions if node.space == Space.COL]
        self.by_segment = [node for node in reductions if node.space != Space.COL]
        self.in_vectors = True

    def text(self) -> str:
        vectors, elements = self.statements(in_vectors=True), self.statements(in_vectors=False)
        kinds = [_KINDS[node.attr[0]] for node in self.by_segment]
        loop = [
            "for (int64_t base = 0; base < n; base += fl_vec::SUMMED) {",
            "    const int64_t end = n - base < fl_vec::SUMMED ? n : base + fl_vec::SUMMED;",
            *(f"    fl_vec::Lanes<{kind}> r{at};" for at, kind in enumerate(kinds)),
            "    int64_t lanes = base;",
            "    for (; lanes + fl_vec::LANES <= end; lanes += fl_vec::LANES) {",
            *indent(indent(self.fetches("lanes", "fl_vec::LANES", "fl_memory::AHEAD"))),
            "#pragma GCC unroll 4",
            "        for (int l = 0; l < fl_vec::LANES; l += fl_vec::WIDTH) {",
            "            const int64_t i = lanes + l;",
            *indent(indent(indent(vectors))),
            "        }",
            "    }",
            "    if (lanes < end) {",
            *(f"        fl_vec::Rest<{kind}> x{at};" for at, kind in enumerate(kinds)),
            "        for (int64_t i = lanes; i < end; ++i) {",
            *indent(indent(indent(elements))),
            "        }",
            *(f"        r{at}.take(x{at}.lane);" for at in range(len(kinds))),
            "    }",
            *(f"    seg->out[{at}] = {kind}::join(seg->out[{at}], r{at}.total());" for at, kind in enumerate(kinds)),
            "}",
        ]
        return self.function(f"pass{self.k}", loop)

    def statements(self, in_vectors: bool) -> list[str]:
        self.in_vectors, self.body = in_vectors, []
        for node in self.program.pass_nodes(self.k):
            self.compute(node)
        for at, node in enumerate(self.by_segment):
            value = self.value(node.args[0])
            self.body.append(
                f"r{at}.take(l, fl_vec::wide({value}));" if in_vectors else f"x{at}.lane[i - lanes] = {value};"
            )
        for at, node in enumerate(self.by_column):
            self.head[f"float* __restrict c{at} = seg->col_out[{at}];"] = None
            kind, old, value = _KINDS[node.attr[0]], self.element(f"c{at}"), self.value(node.args[0])
            self.body.append(
                f"fl_vec::store(c{at} + i, {kind}::join({old}, fl_vec::wide({value})));"
                if in_vectors
                else f"c{at}[i] = {kind}::join({old}, {value});"
            )
        return self.body

    def element(self, array: str) -> str:
        return f"fl_vec::load({array} + i)" if self.in_vectors else f"{array}[i]"
