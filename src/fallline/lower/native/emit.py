"""C++ for a program: one loop per pass, one function per stage.

The text depends on nothing but the program, and its hash is the kernel's name: a library that does not
contain exactly these equations does not have the kernel, however old or new it is.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Sequence

from fallline.lower.native.slots import Slots
from fallline.rules.graph import Node, Space
from fallline.rules.program import Program

ABI = 1
"""Part of every kernel's name: raised when kernel.h changes the meaning of a segment."""

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "and": "&",
    "or": "|",
}


def _literal(value: float | bool, real: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return ("-" if value < 0 else "") + ("HUGE_VALF" if real == "float" else "HUGE_VAL")
    if real == "float":
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return "-HUGE_VALF" if value < 0 else "HUGE_VALF"
        return f"{float(value).hex()}f"
    return float(value).hex()


def _expression(node: Node, args: Sequence[str]) -> str:
    """The operation in C++; comparisons of NaN are false, as in Python and torch."""
    if node.op in _INFIX:
        return f"{args[0]} {_INFIX[node.op]} {args[1]}"
    if node.op == "neg":
        return f"-{args[0]}"
    name = {"not": "negate", "where": "select"}.get(node.op, node.op)
    return f"fl_math::{name}({', '.join(args)})"


def _as(text: str, stored_bool: bool, wants_bool: bool) -> str:
    if wants_bool and not stored_bool:
        return f"({text} != 0)"
    return f"fl_math::number({text})" if stored_bool and not wants_bool else text


class _Pass:
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
        lines = _indent([head, *self.head, *loop])
        return "\n".join([f"static void @NAME@_{name}(const fl_segment* seg) {{", *lines, "}\n"])

    def loop(self) -> list[str]:
        return ["#pragma omp simd", "for (int64_t i = 0; i < n; ++i) {", *_indent(self.body), "}"]

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
        self.body.append(f"const auto {self.names[node.index]} = {_expression(node, args)};")

    def value(self, node: Node, wants_bool: bool = False) -> str:
        if node.op == "const":
            return _as(_literal(node.attr, "float"), isinstance(node.attr, bool), wants_bool)
        if node.space == Space.FULL:
            return _as(self.names[node.index], node.is_bool, wants_bool)
        if node.space == Space.COL:
            column = self.slots.column[node.index]
            self.head[f"const float* __restrict v{column} = seg->col[{column}];"] = None
            return _as(f"v{column}[{self.index}]", False, wants_bool)
        at = self.slots.in_segment(node)
        self.head[f"const float s{at} = s[{at}];"] = None
        return _as(f"s{at}", False, wants_bool)


class _ReducingPass(_Pass):
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
            *_indent(_indent(self.body)),
            "    }",
            *_indent(after),
            "}",
        ]
        return self.function(f"pass{self.k}", loop)


class _PackedPass(_Pass):
    """The last pass with 8-bit states: blocks are decoded, computed and encoded in vectors.  A segment is
    whole blocks without NaN codes; the engine sends everything else through the plain pass."""

    def __init__(self, program: Program, slots: Slots):
        super().__init__(program, slots, len(program.reductions))
        self.packed = {n: s.kind for n, s in program.states.items() if s.low_bit and n in program.operands}

    def text(self) -> str:
        if not self.packed or self.program.view != "flat" or not self.program.writes:
            return ""
        for node in self.program.pass_nodes(self.k):
            self.compute(node)
        for name, node in self.program.writes.items():
            self.write(name, self.value(node))
        return self.function("packed", self.loop())

    def loop(self) -> list[str]:
        begin, tops, rare, factors, codes = [], [], [], [], []
        for name in self.packed:
            io, code = self.coded(name)
            self.head[f"uint8_t* q{io} = seg->codes[{io}]; float* z{io} = seg->scales[{io}];"] = None
            begin.append(f"const float u{io} = fl_vec::decoding_unit<{code}>(z{io}[b]); (void)u{io};")
            if name in self.program.writes:
                self.head[f"alignas(64) float b{io}[fl_vec::SPAN]; uint32_t m{io}[fl_vec::SPAN / fl_vec::BLOCK];"] = (
                    None
                )
                begin.append(f"fl_vec::vu top{io} = {{}};")
                tops.append(f"m{io}[b] = fl_vec::largest(top{io});")
                rare.append(f"z{io}[b] = fl_vec::encode<{code}>(b{io} + base, m{io}[b], q{io} + base);")
                factors.append(f"z{io}[b] = fl_vec::floats((int32_t)m{io}[b]);")
                factors.append(f"const float f{io} = fl_vec::encoding_factor<{code}>(z{io}[b]);")
                codes.append(f"fl_vec::fetch_ahead(q{io} + i);")
                codes.append(f"fl_vec::write_stride<{code}>(b{io} + i, f{io}, q{io} + i);")
        ordinary = " && ".join(f"fl_vec::is_ordinary({line.split(' = ')[0]})" for line in tops) or "true"
        blocks = ["for (int b = 0; b < n / fl_vec::BLOCK; ++b) {", "    const int base = b * fl_vec::BLOCK;"]
        # First all blocks are computed, then all are encoded: what encoding waits for, the largest value of a
        # block, is long known then.  All states in one loop: their operations overlap.
        return [
            *blocks,
            *_indent(begin),
            "    for (int i = base; i < base + fl_vec::BLOCK; i += fl_vec::WIDTH) {",
            *_indent(_indent(self.body)),
            "    }",
            *_indent(tops),
            "}",
            *blocks,
            f"    if ({ordinary}) {{",
            *_indent(_indent(factors)),
            "        for (int i = base; i < base + fl_vec::BLOCK; i += fl_vec::STRIDE) {",
            *_indent(_indent(_indent(codes))),
            "        }",
            "    } else {",
            *_indent(_indent(rare)),
            "    }",
            "}",
        ]

    def coded(self, name: str) -> tuple[int, str]:
        """The position of a coded operand, and its kind as a template argument."""
        return self.program.operands.index(name), "true" if self.packed[name] == "nonneg" else "false"

    def write(self, name: str, value: str) -> None:
        if name not in self.packed:
            self.body.append(f"fl_vec::store({self.operand(name)} + i, fl_vec::wide({value}));")
            return
        io, code = self.coded(name)
        self.body.append(f"const fl_vec::vf w{io} = fl_vec::wide({value});")
        self.body.append(f"fl_vec::store(b{io} + i, w{io});")
        self.body.append(f"top{io} = fl_vec::larger(top{io}, fl_vec::magnitude<{code}>(w{io}));")

    def load(self, name: str) -> str:
        if name not in self.packed:
            self.body.append(f"fl_vec::fetch_ahead({self.operand(name)} + i);")
            return f"fl_vec::load({self.operand(name)} + i)"
        io, code = self.coded(name)
        return f"fl_vec::decode<{code}>(fl_vec::widened<{code}>(q{io} + i), u{io})"


_SIZES = {
    Space.ROW: ("q->batch", "q->rows", "b * q->rows + j"),
    Space.COL: ("q->batch", "q->cols", "b * q->cols + j"),
    Space.LEAD: ("1", "q->rows", "j"),
    Space.BATCH: ("q->batch", "1", "b"),
}


class _Stage:
    """Stage ``k`` as a C++ function, in double; small arrays are stored as float32."""

    def __init__(self, program: Program, slots: Slots, k: int):
        self.program, self.slots, self.k = program, slots, k
        self.here: dict[int, str] = {}
        """Values of the loop that is being written."""

    def text(self) -> str:
        lines: list[str] = []
        if self.k == 0:
            for node in self.slots.states:
                source = self.program.small_operands.index(node.attr)
                lines += _over(node.space, [f"{self.vector(node)}[@] = q->state[{source}][@];"])
        for loop in self.slots.loops[self.k]:
            lines += self.compute(loop)
        if self.k == len(self.program.reductions):
            for name, node in self.program.small_writes.items():
                target = self.program.small_operands.index(name)
                space = self.program.states[name].space
                lines += _over(space, [f"q->state[{target}][@] = (float)({self.value(node, False)});"])
        if not lines:
            return ""
        return "\n".join([f"static void @NAME@_stage{self.k}(const fl_small* q) {{", *_indent(lines), "}\n"])

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
        wants = [node.op in ("and", "or", "not") or (node.op == "where" and i == 0) for i in range(len(node.args))]
        return _expression(node, [self.value(a, w) for a, w in zip(node.args, wants, strict=True)])

    def reduce(self, node: Node) -> list[str]:
        (source,), (kind, _) = node.args, node.attr
        start = "0.0" if kind == "sum" else "-HUGE_VAL"
        step = "acc += {0};" if kind == "sum" else "acc = fl_math::maximum(acc, (double){0});"
        outer, inner, index = _SIZES[source.space]
        loop = f"for (int64_t j = 0; j < {inner}; ++j) " + step.format(f"{self.vector(source)}[{index}]")
        if node.space == Space.BATCH:
            body = [f"double acc = {start};", loop, f"{self.vector(node)}[b] = (float)acc;"]
            return [f"for (int64_t b = 0; b < {outer}; ++b) {{", *_indent(body), "}"]
        target = f"q->scalar[{self.slots.scalar[node.index]}]"
        return [
            "{",
            f"    double acc = {start};",
            f"    for (int64_t b = 0; b < {outer}; ++b) {loop}",
            f"    {target} = acc;",
            "}",
        ]

    def value(self, node: Node, wants_bool: bool) -> str:
        """``[@]`` stands for the index of the loop around it."""
        if node.op == "const":
            return _as(_literal(node.attr, "double"), isinstance(node.attr, bool), wants_bool)
        if node.index in self.here:
            text = self.here[node.index]
        elif node.space == Space.HOST:
            text = f"q->row[{self.slots.row[node.index]}]"
        elif node.space.is_scalar:
            text = f"q->scalar[{self.slots.scalar[node.index]}]"
        else:
            text = f"(double){self.vector(node)}[{'b' if node.space == Space.BATCH else '@'}]"
        return _as(text, False, wants_bool)


def _over(space: Space, body: Sequence[str]) -> list[str]:
    """A loop over a small array; ``[@]`` in its body becomes the index."""
    outer, inner, index = _SIZES[space]
    head = f"for (int64_t b = 0; b < {outer}; ++b) for (int64_t j = 0; j < {inner}; ++j) {{"
    return [head, *_indent([line.replace("[@]", f"[{index}]") for line in body]), "}"]


def _indent(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else "    " + line for line in lines]


@functools.cache
def emit(program: Program) -> tuple[str, str]:
    """The kernel's name and its C++ functions, ending with an initialiser of its ``fl_entry``."""
    slots = Slots(program)
    count = len(program.reductions) + 1
    stages = [_Stage(program, slots, k).text() for k in range(count)]
    passes = [_ReducingPass(program, slots, k).text() for k in range(count - 1)]
    passes.append(_Pass(program, slots, count - 1).text())
    packed = _PackedPass(program, slots).text()
    functions = "\n".join(text for text in (*stages, *passes, packed) if text)
    digest = hashlib.sha256(f"{ABI}\n{functions}".encode()).hexdigest()[:12]
    name = "".join(c if c.isalnum() else "_" for c in program.name) + "_" + digest
    stage_names = ", ".join(f"@NAME@_stage{k}" if text else "nullptr" for k, text in enumerate(stages))
    pass_names = ", ".join(f"@NAME@_pass{k}" if text else "nullptr" for k, text in enumerate(passes))
    packed_name = "@NAME@_packed" if packed else "nullptr"
    entry = f'#define ENTRY_@NAME@ {{"@NAME@", {{{stage_names}}}, {{{pass_names}}}, {packed_name}}}\n'
    return name, (functions + entry).replace("@NAME@", name)


def translation_unit(kernels: dict[str, str], symbol: str) -> str:
    """A C++ file with these kernels and a table of them, ended by a null name."""
    entries = "".join(f"    ENTRY_{name},\n" for name in kernels)
    return (
        '#include "packed.h"\n\nnamespace {\n\n'
        + "\n".join(kernels.values())
        + f"\n}}  // namespace\n\n{symbol} = {{\n{entries}    {{nullptr, {{}}, {{}}, nullptr}},\n}};\n"
    )
