"""Python source of a program in torch operations.

The same text serves three lowerings: *eager* runs it on one tensor at a time, *compiled* gives it to
``torch.compile`` with scalars as 0-d tensors, and *foreach* uses the list form of each operation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from fallline.rules.graph import Node, Space
from fallline.rules.program import Program

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "and": "&", "or": "|"}


@dataclasses.dataclass(frozen=True)
class PassSource:
    """One pass: its function and what it takes and gives, as nodes."""

    function: Callable[..., Any]
    source: str
    takes: tuple[Node, ...]
    """Operands, small operands and values of earlier passes."""
    gives: tuple[Node, ...]
    """Values later passes need, or (in the last pass) the written values."""


@dataclasses.dataclass(frozen=True)
class TorchSource:
    program: Program
    passes: tuple[PassSource, ...]


def _reduction(node: Node) -> str:
    kind, axis = node.attr
    source = node.args[0].space
    if axis == "all" or axis == "tensor":
        # Results stay 0-d float64 tensors: no round trip to the host, and no loss in later scalars.  What is
        # reduced over all parameters, the caller adds up.
        return "{0}.double().sum()" if kind == "sum" else "{0}.double().max()"
    if axis == "rows":
        lead = "{0}.reshape({0}.shape[0], -1)"
        shape = "({0}.shape[0],) + (1,) * ({0}.ndim - 1)"
        found = f"{lead}.sum(1)" if kind == "sum" else f"{lead}.amax(1)"
        return f"{found}.reshape({shape})"
    assert source in (Space.FULL, Space.ROW, Space.COL)
    return f"{{0}}.sum({axis}, keepdim=True)" if kind == "sum" else f"{{0}}.amax({axis}, keepdim=True)"


class _Writer:
    """Writes one pass.  ``lists``: full-size values are lists of tensors; ``tensor_scalars``: the host's
    numbers are 0-d tensors instead of Python's."""

    def __init__(self, program: Program, lists: bool, tensor_scalars: bool):
        self.program, self.lists, self.tensor_scalars = program, lists, tensor_scalars
        self.lines: list[str] = []
        self.last_use: dict[int, int] = {}
        self.aliased: set[int] = set()
        """Values that a choice on the host may pass on as they are: their lists have two names."""

    def is_python(self, node: Node) -> bool:
        return node.space == Space.HOST and (node.op == "const" or not self.tensor_scalars)

    def name(self, node: Node) -> str:
        if node.op == "const":
            return repr(node.attr)
        return f"h{node.index}" if node.space == Space.HOST else f"t{node.index}"

    def single(self, node: Node, args: list[str]) -> str:
        """The operation on one tensor."""
        if node.op == "reduce":
            return _reduction(node).format(args[0])
        if node.op in _INFIX:
            return f"{args[0]} {_INFIX[node.op]} {args[1]}"
        if node.op == "pow":
            return f"torch.pow({args[0]}, {args[1]})"
        if node.op == "neg":
            return f"-{args[0]}"
        if node.op == "not":
            return f"torch.logical_not({args[0]})"
        if node.op == "where":
            condition = node.args[0]
            if self.is_python(condition):
                return f"{args[1]} if {args[0]} else {args[2]}"
            if condition.space == Space.HOST:
                return f"torch.where({args[0]} != 0, {args[1]}, {args[2]})"
            return f"torch.where({args[0]}, {args[1]}, {args[2]})"
        if node.op in ("minimum", "maximum"):
            bound = "max" if node.op == "minimum" else "min"
            for here, other in ((0, 1), (1, 0)):
                if self.is_python(node.args[here]):
                    return f"torch.clamp({args[other]}, {bound}={args[here]})"
            return f"torch.{node.op}({args[0]}, {args[1]})"
        return f"torch.{node.op}({args[0]})"

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
        listed = [i for i, a in enumerate(node.args) if not self.is_python(a)]
        if not listed or (node.op == "where" and self.is_python(node.args[0])):
            self.lines.append(f"{target} = {self.single(node, args)}")
            return
        inner = [f"a{i}" if i in listed else args[i] for i in range(len(args))]
        names = ", ".join(f"a{i}" for i in listed)
        sources = ", ".join(args[i] for i in listed)
        loop = f"for {names} in {sources}" if len(listed) == 1 else f"for {names} in zip({sources}, strict=True)"
        self.lines.append(f"{target} = [{self.single(node, inner)} {loop}]")

    def foreach(self, node: Node, args: list[str], position: int) -> str | None:
        """The list form of the operation, in place where its first operand is not needed any more."""
        if node.space != Space.FULL or node.op not in _FOREACH or any(
            a.space != Space.FULL and not self.is_python(a) for a in node.args
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
    for name in ("add", "sub", "mul", "div", "neg", "abs", "sign", "sqrt", "rsqrt", "exp", "log", "tanh", "minimum", "maximum")
    if hasattr(torch, f"_foreach_{name}")
}


@functools.lru_cache(maxsize=None)
def torch_source(program: Program, lists: bool = False, tensor_scalars: bool = False) -> TorchSource:
    needed_by: list[list[Node]] = []
    count = len(program.reductions) + 1
    finals = (*program.writes.values(), *program.small_writes.values(), *program.late_writes.values())
    for k in range(count):
        roots = list(program.reductions[k]) if k < count - 1 else list(finals)
        needed_by.append(roots)
    passes = []
    known: dict[int, Node] = {}
    for k in range(count):
        computed = _closure(needed_by[k], known)
        later = _closure([n for roots in needed_by[k + 1 :] for n in roots], {})
        uses = {a.index for n in later for a in n.args} | {n.index for roots in needed_by[k + 1 :] for n in roots}
        if k < count - 1:
            # Full-size values are recomputed by the next pass; only small ones are kept.
            gives = tuple(n for n in computed if n.index in uses and n.space != Space.FULL)
        else:
            gives = tuple(finals)
        takes = tuple(
            n
            for n in _arguments(computed, gives)
            if n.op in ("operand",) or n.index in known
        )
        writer = _Writer(program, lists, tensor_scalars)
        for position, node in enumerate(computed):
            for arg in node.args:
                writer.last_use[arg.index] = position
            if node.op == "where":
                writer.aliased.update(arg.index for arg in node.args)
        for node in gives:
            writer.last_use[node.index] = len(computed)
        for position, node in enumerate(computed):
            if node.op not in ("operand", "const", "host") and node.space != Space.HOST:
                writer.write(node, position)
        row = [f"h{n.index}" for n in program.row]
        parameters = ", ".join([*(writer.name(n) for n in takes), *row])
        results = "".join(f"{writer.name(n)}, " for n in gives)
        body = "".join(f"    {line}\n" for line in (*writer.lines, f"return ({results})"))
        source = f"def {program.name.replace('.', '_')}_pass{k}({parameters}):\n{body}"
        scope: dict[str, Any] = {"torch": torch, "inf": float("inf"), "nan": float("nan")}
        exec(compile(source, f"<fallline {program.name} pass {k}>", "exec"), scope)
        function = scope[f"{program.name.replace('.', '_')}_pass{k}"]
        passes.append(PassSource(function, source, takes, gives))
        if k < count - 1:
            known.update((n.index, n) for n in gives)
    return TorchSource(program, tuple(passes))


def _closure(roots: list[Node], known: dict[int, Node]) -> list[Node]:
    """What has to be computed for ``roots`` when ``known`` already is, in order."""
    found: dict[int, Node] = {}
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.index in found or node.index in known:
            continue
        found[node.index] = node
        pending.extend(node.args)
    return [found[i] for i in sorted(found)]


def _arguments(computed: list[Node], gives: tuple[Node, ...]) -> list[Node]:
    found = {n.index: n for n in (*computed, *(a for n in computed for a in n.args), *gives)}
    return [found[i] for i in sorted(found)]
