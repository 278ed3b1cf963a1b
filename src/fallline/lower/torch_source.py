"""Python source of a program in torch operations.

The same text serves three lowerings: *eager* runs it on one tensor at a time, *compiled* gives it to
``torch.compile`` with scalars as 0-d tensors, and *foreach* uses the list form of each operation.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from fallline.rules.node import Node
from fallline.rules.operations import INFIX
from fallline.rules.program import Program, reachable
from fallline.rules.space import Space


@dataclasses.dataclass(frozen=True)
class PassSource:
    """One pass: its function, and the nodes that it takes and returns."""

    function: Callable[..., Any]
    source: str
    takes: tuple[Node, ...]
    """Operands, small operands and values of earlier passes."""
    gives: tuple[Node, ...]
    """The values that later passes need or, in the last pass, the written values."""
    reductions: tuple[Node, ...]
    """The reductions that end the pass, of which other executors may have a part; none in the last pass."""


@dataclasses.dataclass(frozen=True)
class TorchSource:
    program: Program
    passes: tuple[PassSource, ...]


# The functions that generated code calls.  Reductions to one number stay 0-d float64 tensors, which saves a round trip
# to the host and keeps precision in later scalars.  The sum of no elements is 0 and their maximum is -inf, as natively.


def _sum_all(x: Tensor) -> Tensor:
    return x.double().sum()


def _max_all(x: Tensor) -> Tensor:
    return x.double().amax() if x.numel() else x.new_full((), -math.inf, dtype=torch.float64)


def _sum_axis(x: Tensor, axis: int) -> Tensor:
    return x.sum(axis, keepdim=True)


def _max_axis(x: Tensor, axis: int) -> Tensor:
    if x.numel():
        return x.amax(axis, keepdim=True)
    return torch.full_like(x.sum(axis, keepdim=True), -math.inf)


def _sum_rows(x: Tensor) -> Tensor:
    return x.sum(tuple(range(1, x.ndim)), keepdim=True) if x.ndim > 1 else x


def _max_rows(x: Tensor) -> Tensor:
    if x.numel():
        return x.amax(tuple(range(1, x.ndim)), keepdim=True) if x.ndim > 1 else x
    return torch.full_like(_sum_rows(x), -math.inf)


_SCOPE = {
    "torch": torch,
    "inf": math.inf,
    "nan": math.nan,
    **{f.__name__: f for f in (_sum_all, _max_all, _sum_axis, _max_axis, _sum_rows, _max_rows)},
}


def _reduction(node: Node, arg: str) -> str:
    kind, axis = node.attr
    if axis in ("tensor", "all"):
        # The caller adds up reductions over all parameters.
        return f"_{kind}_all({arg})"
    return f"_{kind}_rows({arg})" if axis == "rows" else f"_{kind}_axis({arg}, {axis})"


class _Writer:
    """Writes one pass.  ``lists``: full-size values are lists of tensors.  ``tensor_scalars``: the host's
    numbers are 0-d tensors instead of Python's floats."""

    def __init__(self, program: Program, lists: bool, tensor_scalars: bool):
        self.program, self.lists, self.tensor_scalars = program, lists, tensor_scalars
        self.lines: list[str] = []
        self.last_use: dict[int, int] = {}
        self.aliased: set[int] = set()
        """Values that a choice on the host may pass on unchanged, so that their lists have two names."""

    def is_python(self, node: Node) -> bool:
        if node.op == "truth":
            return self.is_python(node.args[0])
        return node.space == Space.HOST and (node.op == "const" or not self.tensor_scalars)

    def name(self, node: Node) -> str:
        if node.op == "const":
            return repr(node.attr)
        return f"h{node.index}" if node.space == Space.HOST else f"t{node.index}"

    def single(self, node: Node, args: list[str]) -> str:
        """The operation on one tensor."""
        if node.op == "reduce":
            return _reduction(node, args[0])
        if node.op == "truth":
            return f"{args[0]} != 0"
        if node.op == "number":
            return f"{args[0]}.to(torch.float64)" if node.space.is_scalar else f"{args[0]}.to(dtype)"
        if node.op in INFIX:
            return f"{args[0]} {INFIX[node.op]} {args[1]}"
        if node.op == "pow":
            return f"torch.pow({args[0]}, {args[1]})"
        if node.op == "neg":
            return f"-{args[0]}"
        if node.op == "not":
            return f"torch.logical_not({args[0]})"
        if node.op == "where":
            return self.where(node, args)
        if node.op in ("minimum", "maximum"):
            bound = "max" if node.op == "minimum" else "min"
            for here, other in ((0, 1), (1, 0)):
                if self.is_python(node.args[here]):
                    return f"torch.clamp({args[other]}, {bound}={args[here]})"
            return f"torch.{node.op}({args[0]}, {args[1]})"
        return f"torch.{node.op}({args[0]})"

    def chooses_whole(self, node: Node) -> bool:
        """A choice, made by the host, between two values of the shape of the result."""
        return self.is_python(node.args[0]) and all(a.space == node.space for a in node.args[1:])

    def where(self, node: Node, args: list[str]) -> str:
        condition, *branches = args
        if self.chooses_whole(node):
            return f"{branches[0]} if {condition} else {branches[1]}"
        if self.is_python(node.args[0]):
            beside = next(text for a, text in zip(node.args[1:], branches, strict=True) if not self.is_python(a))
            condition = f"torch.full((), {condition}, dtype=torch.bool, device={beside}.device)"
        elif all(a.space.is_scalar for a in node.args[1:]):
            # torch would give two numbers the default dtype, and two 0-d tensors their own dtype.
            dtype = "torch.float64" if node.space.is_scalar else "dtype"
            branches = [
                f"{condition}.new_full((), {text}, dtype={dtype})" if self.is_python(a) else f"{text}.to({dtype})"
                for a, text in zip(node.args[1:], branches, strict=True)
            ]
        return f"torch.where({condition}, {branches[0]}, {branches[1]})"

    def write(self, node: Node, position: int) -> None:
        args = [self.name(a) for a in node.args]
        target = self.name(node)
        if not self.lists:
            self.lines.append(f"{target} = {self.single(node, args)}")
            return
        foreach = self.foreach(node, args, position)
        if foreach is not None:
            self.lines.append(f"{target} = {foreach}")
            return
        if self.is_python(node) or (node.op == "where" and self.chooses_whole(node)):
            self.lines.append(f"{target} = {self.single(node, args)}")
            return
        listed = [i for i, a in enumerate(node.args) if not self.is_python(a)]
        inner = [f"a{i}" if i in listed else args[i] for i in range(len(args))]
        names = ", ".join(f"a{i}" for i in listed)
        sources = ", ".join(args[i] for i in listed)
        loop = f"for {names} in {sources}" if len(listed) == 1 else f"for {names} in zip({sources}, strict=True)"
        self.lines.append(f"{target} = [{self.single(node, inner)} {loop}]")

    def foreach(self, node: Node, args: list[str], position: int) -> str | None:
        """The list form of the operation, in place where its first operand is not needed any more."""
        if (
            node.space != Space.FULL
            or node.op not in _FOREACH
            or any(a.space != Space.FULL and not self.is_python(a) for a in node.args)
        ):
            return None
        operands = list(zip(node.args, args, strict=True))
        if node.op in ("add", "mul", "minimum", "maximum") and self.is_python(node.args[0]):
            operands.reverse()
        if self.is_python(operands[0][0]):
            return None
        name = _FOREACH[node.op]
        if node.op in ("minimum", "maximum") and self.is_python(operands[1][0]):
            name = "clamp_max" if node.op == "minimum" else "clamp_min"
        for swapped in (operands, operands[::-1]) if node.op in ("add", "mul") else (operands,):
            first = swapped[0][0]
            if self.reusable(first, position) and not self.is_python(first):
                passed = ", ".join(text for _, text in swapped)
                # In-place list operations return nothing; the list itself becomes the result.
                self.lines.append(f"torch._foreach_{name}_({passed})")
                return swapped[0][1]
        return f"torch._foreach_{name}({', '.join(text for _, text in operands)})"

    def drop(self, node: Node, position: int) -> None:
        """Frees values that are no longer needed; all temporaries of a step take many times the memory of a model."""
        done = {self.name(a) for a in node.args if a.space == Space.FULL and self.last_use[a.index] == position}
        if done:
            self.lines.append(f"del {', '.join(sorted(done))}")

    def reusable(self, node: Node, position: int) -> bool:
        return (
            node.op not in ("operand", "const", "host", "where")
            and node.space == Space.FULL
            and not node.is_bool
            and node.index not in self.aliased
            and self.last_use.get(node.index) == position
        )


_FOREACH = {
    name: name
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "abs",
        "sign",
        "sqrt",
        "rsqrt",
        "exp",
        "log",
        "tanh",
        "minimum",
        "maximum",
    )
    if hasattr(torch, f"_foreach_{name}")
}


def _ends(program: Program, in_pieces: bool) -> list[tuple[Node, ...]]:
    """The results of each pass: reductions or, in the last pass, the written values.  If parameters are in pieces,
    reductions of small arrays end a pass, too."""
    ends: list[tuple[Node, ...]] = []
    for k, rounds in enumerate(program.stage_rounds):
        ends += rounds if in_pieces else ()
        ends += program.reductions[k : k + 1]
    return [*ends, (*program.writes.values(), *program.small_writes.values(), *program.deferred_writes.values())]


@functools.cache
def torch_source(
    program: Program, lists: bool = False, tensor_scalars: bool = False, in_pieces: bool = False
) -> TorchSource:
    """One function per pass, called with its inputs, a set of the host's scalars, and the dtype to compute in."""
    roots = _ends(program, in_pieces)
    count, finals = len(roots), roots[-1]
    passes = []
    known: dict[int, Node] = {}
    for k in range(count):
        computed = _needed(roots[k], known)
        later = _needed(n for nodes in roots[k + 1 :] for n in nodes)
        uses = {a.index for n in later for a in n.args} | {n.index for nodes in roots[k + 1 :] for n in nodes}
        # The next pass computes full-size values again; only small ones are kept.
        kept = tuple(n for n in computed if n.index in uses and n.space != Space.FULL and n.op != "operand")
        gives = kept if k < count - 1 else finals
        mentioned = {n.index: n for n in (*computed, *(a for n in computed for a in n.args), *gives)}
        takes = tuple(n for i, n in sorted(mentioned.items()) if n.op == "operand" or i in known)
        writer = _Writer(program, lists, tensor_scalars)
        for position, node in enumerate(computed):
            for arg in node.args:
                writer.last_use[arg.index] = position
            if node.op == "where":
                writer.aliased.update(arg.index for arg in node.args)
        for node in gives:
            writer.last_use[node.index] = len(computed)
        for position, node in enumerate(computed):
            if node.op != "operand":
                writer.write(node, position)
                writer.drop(node, position)
        scalars = [f"h{n.index}" for n in program.host_values]
        parameters = ", ".join([*(writer.name(n) for n in takes), *scalars, "dtype"])
        results = "".join(f"{writer.name(n)}, " for n in gives)
        body = "".join(f"    {line}\n" for line in (*writer.lines, f"return ({results})"))
        source = f"def one_pass({parameters}):\n{body}"
        scope: dict[str, Any] = dict(_SCOPE)
        exec(compile(source, f"<fallline {program.name} pass {k}>", "exec"), scope)
        passes.append(PassSource(scope["one_pass"], source, takes, gives, roots[k] if k < count - 1 else ()))
        known.update((n.index, n) for n in kept)
    return TorchSource(program, tuple(passes))


def _needed(roots: Iterable[Node], known: Collection[int] = ()) -> list[Node]:
    """The nodes that must be computed for ``roots`` if ``known`` are there; values of the host always are."""
    return reachable(roots, lambda node: node.space != Space.HOST and node.index not in known)
