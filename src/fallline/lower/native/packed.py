"""The last pass with 8-bit states in C++: blocks are decoded, computed and encoded in vectors.

A segment consists of whole blocks without NaN codes; the engine sends all other elements through the plain pass.  The
first loop decodes and updates the states and finds the scale of each block; the second computes everything else and
encodes.  ``docs/formats.md`` says why this division is fast, and where the result differs from the plain pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from fallline.lower.native.expressions import indent
from fallline.lower.native.passes import Pass
from fallline.lower.native.slots import Slots
from fallline.rules.node import Node
from fallline.rules.program import Program, reachable
from fallline.rules.space import Space

_SLOW = {"div", "exp", "log", "pow", "rsqrt", "sqrt", "tanh"}
"""Operations that are not worth computing twice."""

_BLOCKS = ["for (int b = 0; b < n / fl_vec::BLOCK; ++b) {", "    const int base = b * fl_vec::BLOCK;"]


class PackedPass(Pass):
    def __init__(self, program: Program, slots: Slots):
        super().__init__(program, slots, len(program.reductions))
        self.packed = {n: s.kind for n, s in program.states.items() if s.low_bit and n in program.operands}
        self.fetched: set[str] = set()
        nodes = program.pass_nodes(self.k)
        reads = Counter(node.index for node in program.writes.values())
        reads.update(arg.index for node in nodes for arg in node.args)
        self.read_once = {index for index, times in reads.items() if times == 1}
        self.factors = dict(found for node in nodes if (found := self.factor_of_state(node)))
        self.merged = {product.index for node in nodes if (product := self.product_in(node)) is not None}

    def factor_of_state(self, node: Node) -> tuple[str, Node] | None:
        """The name of a coded state that only this product with a number reads, and the number."""
        for state, number in (node.args, node.args[::-1]) if node.op == "mul" else ():
            coded = state.op == "operand" and state.attr in self.packed
            if coded and state.index in self.read_once and number.space != Space.FULL:
                return state.attr, number
        return None

    def product_in(self, node: Node) -> Node | None:
        """A product that only this sum or difference reads."""
        for arg in node.args if node.op in ("add", "sub") else ():
            if arg.op == "mul" and arg.space == Space.FULL and arg.index in self.read_once:
                return arg
        return None

    def text(self) -> str:
        if not self.packed or self.program.view != "flat" or not self.program.writes:
            return ""
        writes = self.program.writes
        states = {name: node for name, node in writes.items() if name in self.packed}
        others = {name: node for name, node in writes.items() if name not in self.packed}
        kept = {node.index: name for name, node in states.items() if node.space == Space.FULL}
        late = self.late_nodes(states.values(), others.values(), kept)
        first = self.statements(
            _needed((writes if late is None else states).values()), writes if late is None else states
        )
        second = [] if late is None else [*self.reloads(late, others, kept), *self.statements(late, others)]
        return self.function("packed", self.loops(first, second))

    def late_nodes(self, states: Iterable[Node], others: Iterable[Node], kept: Collection[int]) -> list[Node] | None:
        """The nodes of the second loop; None if they would need old states, or much of the first loop again."""
        late = _needed(others, known=kept)
        early = {node.index for node in _needed(states)}
        if any(node.op == "operand" and node.attr in self.packed for node in late):
            return None
        return None if any(node.index in early and node.op in _SLOW for node in late) else late

    def statements(self, nodes: Iterable[Node], writes: Mapping[str, Node]) -> list[str]:
        self.body = []
        for node in nodes:
            self.compute(node)
        for name, node in writes.items():
            self.write(name, self.value(node))
        return self.body

    def reloads(self, late: Sequence[Node], others: dict[str, Node], kept: dict[int, str]) -> list[str]:
        """Loads the new states that the second loop reads."""
        read = {arg.index for node in late for arg in node.args} | {node.index for node in others.values()}
        return [
            f"const auto {self.names[index]} = fl_vec::load(b{self.coded(name)[0]} + i);"
            for index, name in kept.items()
            if index in read
        ]

    def loops(self, first: Sequence[str], second: Sequence[str]) -> list[str]:
        begin, tops, rare, factors, codes, kept = [], [], [], [], [], []
        for name in self.packed:
            io, code = self.coded(name)
            self.head[f"uint8_t* q{io} = seg->codes[{io}]; float* z{io} = seg->scales[{io}];"] = None
            factor = f" * {self.value(self.factors[name])}" if name in self.factors else ""
            begin.append(f"const float u{io} = z{io}[b]{factor}; (void)u{io};")
            if name in self.program.writes:
                largest = f"uint32_t m{io}[fl_vec::SPAN / fl_vec::BLOCK];"
                self.head[f"alignas(64) float b{io}[fl_vec::SPAN]; {largest}"] = None
                kept.append(io)
                begin.append(f"fl_vec::vu top{io} = {{}};")
                tops.append(f"m{io}[b] = fl_vec::largest(top{io});")
                rare.append(f"z{io}[b] = fl_vec::encode<{code}>(b{io} + base, m{io}[b], q{io} + base);")
                factors.append(f"z{io}[b] = fl_vec::floats((int32_t)m{io}[b]);")
                factors.append(f"const float f{io} = 1.0f / z{io}[b];")
                factors.append(f"const float* d{io} = fl_vec::dither_of(z{io}[b]) - base;")
                codes.append(f"fl_vec::fetch_ahead(q{io} + i);")
                codes.append(f"fl_vec::write_stride<{code}>(b{io} + i, f{io}, d{io} + i, q{io} + i);")
        ordinary = " && ".join(f"fl_vec::is_ordinary({line.split(' = ')[0]})" for line in tops) or "true"
        update, stride, block = [], [], []
        if second:
            update = [
                "const auto update = [&](int from, int to) __attribute__((always_inline)) {",
                "    for (int i = from; i < to; i += fl_vec::WIDTH) {",
                *indent(indent(second)),
                "    }",
                "};",
            ]
            stride, block = ["update(i, i + fl_vec::STRIDE);"], ["update(base, base + fl_vec::BLOCK);"]
        return [
            *update,
            *_BLOCKS,
            *indent(begin),
            "    for (int i = base; i < base + fl_vec::BLOCK; i += fl_vec::WIDTH) {",
            *indent(indent(first)),
            "    }",
            *indent(tops),
            "}",
            *_BLOCKS,
            f"    if ({ordinary}) {{",
            *indent(indent(factors)),
            "        for (int i = base; i < base + fl_vec::BLOCK; i += fl_vec::STRIDE) {",
            *indent(indent(indent([*stride, *codes]))),
            "        }",
            "    } else {",
            *indent(indent([*block, *rare])),
            "    }",
            "}",
            # A piece of a parameter needs the new states themselves, where a block goes on in another piece.  A call
            # would take the buffers' addresses, and the compiler then load anew after each store of a code.
            "if (__builtin_expect(seg->values != nullptr, 0)) {",
            "    for (int64_t i = 0; i < n; i += fl_vec::WIDTH) {",
            *(f"        fl_vec::store(seg->values[{io}] + i, fl_vec::load(b{io} + i));" for io in kept),
            "    }",
            "}",
        ]

    def coded(self, name: str) -> tuple[int, str]:
        """The position of a coded operand, and its kind as a template argument."""
        return self.program.operands.index(name), "true" if self.packed[name] == "nonneg" else "false"

    def compute(self, node: Node) -> None:
        product = self.product_in(node)
        if product is not None:
            self.body.append(f"const auto {self.names[node.index]} = {self.multiply_add(node, product)};")
        elif node.op == "mul" and node.index not in self.merged:
            self.body.append(f"const auto {self.names[node.index]} = {' * '.join(self.factors_of(node))};")
        elif node.op != "mul":
            super().compute(node)

    def multiply_add(self, node: Node, product: Node) -> str:
        a, b = self.factors_of(product)
        comes_first = node.args[0] is product
        rest = self.value(node.args[1 if comes_first else 0])
        if node.op == "sub":
            a, rest = (a, f"-({rest})") if comes_first else (f"-({a})", rest)
        return f"fl_vec::multiply_add({a}, {b}, {rest})"

    def factors_of(self, product: Node) -> list[str]:
        """Both factors in C++, in the order of the rule."""
        found = self.factor_of_state(product)
        if not found:
            return [self.value(arg) for arg in product.args]
        scaled = f"u{self.coded(found[0])[0]}"
        return [scaled if arg is found[1] else self.value(arg) for arg in product.args]

    def write(self, name: str, value: str) -> None:
        if name not in self.packed:
            self.body.append(f"fl_vec::store({self.operand(name)} + i, fl_vec::wide({value}));")
            return
        io, code = self.coded(name)
        self.body.append(f"const fl_vec::vf w{io} = fl_vec::wide({value});")
        self.body.append(f"fl_vec::store(b{io} + i, w{io});")
        self.body.append(f"top{io} = fl_vec::larger(top{io}, fl_vec::magnitude<{code}>(w{io}));")

    def load(self, name: str) -> str:
        if name in self.packed:
            io, code = self.coded(name)
            share = f"fl_vec::share_of<{code}>(fl_vec::widened<{code}>(q{io} + i))"
            return share if name in self.factors else f"{share} * u{io}"
        if name not in self.fetched:
            self.fetched.add(name)
            self.body.append(f"fl_vec::fetch_ahead({self.operand(name)} + i);")
        return self.element(self.operand(name))

    def element(self, array: str) -> str:
        return f"fl_vec::load({array} + i)"


def _needed(roots: Iterable[Node], known: Collection[int] = ()) -> list[Node]:
    """The full-size nodes that ``roots`` need beyond the known ones."""
    return reachable(roots, lambda node: node.space == Space.FULL and node.index not in known)
