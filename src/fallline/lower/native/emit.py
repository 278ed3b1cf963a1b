"""C++ for a program: one loop per pass, one function per stage.

The text depends on nothing but the program, and its hash is the kernel's name: a library that does not
contain exactly these equations does not have the kernel, however old or new it is.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Sequence

from fallline.rules.graph import Node, Space
from fallline.rules.program import Program

ABI = 1
"""Part of every kernel's name: raised when kernel.h changes the meaning of a segment."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "and": "&", "or": "|"}


class Slots:
    """Where a program's scalars and small arrays live; shared by the emitter and the launcher."""

    def __init__(self, program: Program):
        small: dict[int, Node] = {}
        for nodes in (*program.stages, *program.reductions):
            small.update((n.index, n) for n in nodes)
        operands = {n.index: n for n in _small_operands(program)}
        ordered = [*operands.values(), *(small[i] for i in sorted(small))]
        self.row = {n.index: i for i, n in enumerate(program.row)}
        self.scalars = [n for n in ordered if n.space.is_scalar]
        self.vectors = [n for n in ordered if not n.space.is_scalar]
        self.scalar = {n.index: i for i, n in enumerate(self.scalars)}
        self.vector = {n.index: i for i, n in enumerate(self.vectors)}
        # Values that are one number for a whole segment follow the scalars.
        per_segment = [n for n in self.vectors if n.space != Space.COL]
        self.segment = {n.index: i for i, n in enumerate(per_segment)}
        self.segment_vectors = [self.vector[n.index] for n in per_segment]
        columns = [n for n in self.vectors if n.space == Space.COL]
        self.column = {n.index: i for i, n in enumerate(columns)}
        self.column_vectors = [self.vector[n.index] for n in columns]

    def in_segment(self, node: Node) -> int | None:
        """The index of a value in ``fl_segment.s``; 0 is the gradient's factor."""
        if node.index in self.row:
            return 1 + self.row[node.index]
        if node.index in self.scalar:
            return 1 + len(self.row) + self.scalar[node.index]
        if node.index in self.segment:
            return 1 + len(self.row) + len(self.scalars) + self.segment[node.index]
        return None


def _small_operands(program: Program) -> list[Node]:
    found: dict[str, Node] = {}
    roots = [*program.small_writes.values(), *program.writes.values(), *program.late_writes.values()]
    pending, seen = list(roots), set()
    while pending:
        node = pending.pop()
        if node.index in seen:
            continue
        seen.add(node.index)
        pending.extend(node.args)
        if node.op == "operand" and node.attr in program.small_operands:
            found[node.attr] = node
    return [found[name] for name in program.small_operands if name in found]


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


def _expression(node: Node, args: Sequence[str], real: str) -> str:
    """The operation in C++; comparisons of NaN are false, as in Python and torch."""
    if node.op in _INFIX:
        return f"{args[0]} {_INFIX[node.op]} {args[1]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "not":
        return f"!{args[0]}"
    if node.op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    return f"fl_math::{node.op}({', '.join(args)})"


def _as(text: str, stored_bool: bool, wants_bool: bool, real: str) -> str:
    if wants_bool and not stored_bool:
        return f"({text} != 0)"
    return f"({real}){text}" if stored_bool and not wants_bool else text


class _Pass:
    """Pass ``k`` as a C++ function."""

    def __init__(self, program: Program, slots: Slots, k: int):
        self.program, self.slots, self.k = program, slots, k
        self.head: dict[str, None] = {}
        self.body: list[str] = []

    def text(self) -> str:
        program, k = self.program, self.k
        writing = k == len(program.reductions)
        if writing and not program.writes:
            return ""
        nodes = program.pass_nodes(k)
        for node in nodes:
            self.compute(node)
        if writing:
            for name, node in program.writes.items():
                io = program.operands.index(name)
                self.head[f"float* __restrict o{io} = seg->io[{io}];"] = None
                self.body.append(f"o{io}[i] = {self.value(node)};")
            loop = ["#pragma omp simd", "for (int64_t i = 0; i < n; ++i) {", *_indent(self.body), "}"]
        else:
            loop = self.reducing_loop()
        head = "const int64_t n = seg->n; const float* s = seg->s; (void)s;"
        return "\n".join(
            ["static void @NAME@_pass%d(const fl_segment* seg) {" % k, *_indent([head, *self.head, *loop]), "}\n"]
        )

    def reducing_loop(self) -> list[str]:
        """Operands of the reductions go to blocks in L1, which are then summed in a fixed order."""
        blocks, after = [], []
        out = col = 0
        for node in self.program.reductions[self.k]:
            value = self.value(node.args[0])
            if node.space == Space.COL:
                self.head[f"double* __restrict c{col} = seg->col_out[{col}];"] = None
                if node.attr[0] == "sum":
                    self.body.append(f"c{col}[base + i] += {value};")
                else:
                    self.body.append(f"c{col}[base + i] = fl_math::maximum(c{col}[base + i], (double){value});")
                col += 1
            else:
                blocks.append(f"float r{out}[256];")
                self.body.append(f"r{out}[i] = {value};")
                if node.attr[0] == "sum":
                    after.append(f"seg->out[{out}] += fl_math::block_sum(r{out}, m);")
                else:
                    after.append(f"seg->out[{out}] = fl_math::maximum(seg->out[{out}], fl_math::block_max(r{out}, m));")
                out += 1
        body = [line.replace("[i]", "[base + i]") if line.startswith("const float x") else line for line in self.body]
        return [
            *blocks,
            "for (int64_t base = 0; base < n; base += 256) {",
            "    const int64_t m = n - base < 256 ? n - base : 256;",
            "#pragma omp simd",
            "    for (int64_t i = 0; i < m; ++i) {",
            *_indent(_indent(body)),
            "    }",
            *_indent(after),
            "}",
        ]

    def compute(self, node: Node) -> None:
        if node.op == "operand":
            io = self.program.operands.index(node.attr)
            self.head[f"float* __restrict o{io} = seg->io[{io}];"] = None
            factor = ""
            if node.attr == self.program.grad:
                # Unscaling, clipping and maximize are one factor; by 1 it changes nothing, not even a NaN.
                self.head["const float grad_factor = s[0];"] = None
                factor = " * grad_factor"
            self.body.append(f"const float x{node.index} = o{io}[i]{factor};")
            return
        wants_bool = node.op in ("and", "or", "not")
        args = []
        for position, arg in enumerate(node.args):
            condition = wants_bool or (node.op == "where" and position == 0)
            args.append(self.value(arg, condition))
        kind = "bool" if node.is_bool else "float"
        self.body.append(f"const {kind} t{node.index} = {_expression(node, args, 'float')};")

    def value(self, node: Node, wants_bool: bool = False) -> str:
        if node.op == "const":
            return _as(_literal(node.attr, "float"), isinstance(node.attr, bool), wants_bool, "float")
        if node.space == Space.FULL:
            name = f"x{node.index}" if node.op == "operand" else f"t{node.index}"
            return _as(name, node.is_bool, wants_bool, "float")
        if node.space == Space.COL:
            column = self.slots.column[node.index]
            self.head[f"const float* __restrict v{column} = seg->col[{column}];"] = None
            index = "i" if self.k == len(self.program.reductions) else "base + i"
            return _as(f"v{column}[{index}]", False, wants_bool, "float")
        at = self.slots.in_segment(node)
        self.head[f"const float s{at} = s[{at}];"] = None
        return _as(f"s{at}", False, wants_bool, "float")


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

    def text(self) -> str:
        lines: list[str] = []
        if self.k == 0:
            for node in _small_operands(self.program):
                source = self.program.small_operands.index(node.attr)
                lines += _over(node.space, lambda i, v=self.vector(node), s=source: f"{v}[{i}] = q->state[{s}][{i}];")
        for node in self.program.stages[self.k]:
            lines += self.compute(node)
        if self.k == len(self.program.reductions):
            for name, node in self.program.small_writes.items():
                target = self.program.small_operands.index(name)
                space = self.program.states[name].space
                lines += _over(
                    space, lambda i, n=node, t=target: f"q->state[{t}][{i}] = (float)({self.value(n, i, False)});"
                )
        if not lines:
            return ""
        return "\n".join(["static void @NAME@_stage%d(const fl_small* q) {" % self.k, *_indent(lines), "}\n"])

    def vector(self, node: Node) -> str:
        return f"q->vec[{self.slots.vector[node.index]}]"

    def compute(self, node: Node) -> list[str]:
        if node.op == "reduce":
            return self.reduce(node)
        wants = [node.op in ("and", "or", "not") or (node.op == "where" and i == 0) for i in range(len(node.args))]
        if node.space.is_scalar:
            args = [self.value(a, "", w) for a, w in zip(node.args, wants, strict=True)]
            return [f"q->scalar[{self.slots.scalar[node.index]}] = {_expression(node, args, 'double')};"]

        def assign(i: str) -> str:
            args = [self.value(a, i, w) for a, w in zip(node.args, wants, strict=True)]
            return f"{self.vector(node)}[{i}] = (float)({_expression(node, args, 'double')});"

        return _over(node.space, assign)

    def reduce(self, node: Node) -> list[str]:
        (source,), (kind, _) = node.args, node.attr
        start = "0.0" if kind == "sum" else "-HUGE_VAL"
        step = "acc += {0};" if kind == "sum" else "acc = fl_math::maximum(acc, (double){0});"
        outer, inner, index = _SIZES[source.space]
        loop = f"for (int64_t j = 0; j < {inner}; ++j) " + step.format(f"{self.vector(source)}[{index}]")
        if node.space == Space.BATCH:
            body = ["double acc = %s;" % start, loop, f"{self.vector(node)}[b] = (float)acc;"]
            return [f"for (int64_t b = 0; b < {outer}; ++b) {{", *_indent(body), "}"]
        target = f"q->scalar[{self.slots.scalar[node.index]}]"
        return [
            "{",
            f"    double acc = {start};",
            f"    for (int64_t b = 0; b < {outer}; ++b) {loop}",
            f"    {target} = acc;",
            "}",
        ]

    def value(self, node: Node, index: str, wants_bool: bool) -> str:
        if node.op == "const":
            return _as(_literal(node.attr, "double"), isinstance(node.attr, bool), wants_bool, "double")
        if node.space == Space.HOST:
            text = f"q->row[{self.slots.row[node.index]}]"
        elif node.space.is_scalar:
            text = f"q->scalar[{self.slots.scalar[node.index]}]"
        else:
            text = f"(double){self.vector(node)}[{'b' if node.space == Space.BATCH else index}]"
        return _as(text, False, wants_bool, "double")


def _over(space: Space, line: Callable[[str], str]) -> list[str]:
    outer, inner, index = _SIZES[space]
    loop = f"for (int64_t b = 0; b < {outer}; ++b) for (int64_t j = 0; j < {inner}; ++j)"
    return [f"{loop} {line(index)}"]


def _indent(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else "    " + line for line in lines]


@functools.lru_cache(maxsize=None)
def emit(program: Program) -> tuple[str, str]:
    """The kernel's name and its C++ functions, ending with an initialiser of its ``fl_entry``."""
    slots = Slots(program)
    count = len(program.reductions) + 1
    stages = [_Stage(program, slots, k).text() for k in range(count)]
    passes = [_Pass(program, slots, k).text() for k in range(count)]
    functions = "\n".join(text for text in (*stages, *passes) if text)
    digest = hashlib.sha256(f"{ABI}\n{functions}".encode()).hexdigest()[:12]
    name = "".join(c if c.isalnum() else "_" for c in program.name) + "_" + digest
    stage_names = ", ".join(f"@NAME@_stage{k}" if text else "nullptr" for k, text in enumerate(stages))
    pass_names = ", ".join(f"@NAME@_pass{k}" if text else "nullptr" for k, text in enumerate(passes))
    entry = f'#define ENTRY_@NAME@ {{"@NAME@", {{{stage_names}}}, {{{pass_names}}}}}\n'
    return name, (functions + entry).replace("@NAME@", name)


def translation_unit(kernels: dict[str, str], symbol: str) -> str:
    """A C++ file with these kernels and a table of them, ended by a null name."""
    entries = "".join(f"    ENTRY_{name},\n" for name in kernels)
    return (
        '#include "kernel.h"\n\nnamespace {\n\n'
        + "\n".join(kernels.values())
        + f"\n}}  // namespace\n\n{symbol} = {{\n{entries}    {{nullptr, {{}}, {{}}}},\n}};\n"
    )
