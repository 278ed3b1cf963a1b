"""The compiled form of a program, from the library or, for a user's rule, from the compiler."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from ctypes import c_int32

from fallline.lower.native.compiler import compile_kernel
from fallline.lower.native.emit import emit
from fallline.lower.native.library import MAX_PASSES, CProgram, CReduction, Library, NativeUnavailable, library
from fallline.lower.native.slots import Slots
from fallline.rules.program import Program
from fallline.rules.space import Space

MAX_OPERANDS = 12
MAX_SCALARS = 128
MAX_REDUCTIONS = 24


class Kernel:
    """A program's description for the engine; keeps alive everything it points to."""

    def __init__(self, library: Library, program: Program, entry: int):
        self.library, self.program = library, program
        self.slots = slots = Slots(program)
        tiled = program.view != "flat"
        self.reductions = (CReduction * max(1, sum(map(len, program.reductions))))()
        at = 0
        for k, nodes in enumerate(program.reductions):
            for node in nodes:
                slot = slots.scalar[node.index] if node.space.is_scalar else slots.vector[node.index]
                self.reductions[at] = CReduction(k, int(node.space), slot, node.attr[0] == "max")
                at += 1
        self.vector_space = _ints([int(n.space) for n in slots.vectors])
        self.segment_vectors = _ints(slots.segment_vectors)
        self.column_vectors = _ints(slots.column_vectors)
        passes = len(program.reductions) + 1
        self.c = CProgram(
            entry=entry,
            grad_operand=program.operands.index(program.grad) if program.uses_gradient else -1,
            n_operands=len(program.operands),
            n_host=len(program.host_values),
            n_scalars=len(slots.scalars),
            n_vectors=len(slots.vectors),
            n_passes=passes,
            n_reductions=at,
            tiled=tiled,
            writes=_mask(program, program.writes),
            packable=_mask(program, (n for n, s in program.states.items() if s.low_bit and n in program.operands)),
            vector_space=ctypes.addressof(self.vector_space),
            reductions=ctypes.addressof(self.reductions),
            n_segment=len(slots.segment_vectors),
            n_column=len(slots.column_vectors),
            segment_vectors=ctypes.addressof(self.segment_vectors),
            column_vectors=ctypes.addressof(self.column_vectors),
        )
        for k in range(passes):
            read = {n.attr for n in program.pass_nodes(k) if n.op == "operand" and n.space == Space.FULL}
            self.c.reads[k] = _mask(program, read)


def _mask(program: Program, names: Iterable[str]) -> int:
    return sum(1 << program.operands.index(name) for name in names)


def _ints(values: list[int]) -> ctypes.Array[c_int32]:
    return (c_int32 * max(1, len(values)))(*values)


def _check_limits(program: Program) -> None:
    slots = Slots(program)
    if len(program.reductions) + 1 > MAX_PASSES:
        raise NativeUnavailable(f"{program.name} needs more than {MAX_PASSES} passes over memory")
    if len(program.operands) > MAX_OPERANDS:
        raise NativeUnavailable(f"{program.name} has more than {MAX_OPERANDS - 2} states")
    if 1 + len(program.host_values) + len(slots.scalars) + len(slots.segment_vectors) > MAX_SCALARS:
        raise NativeUnavailable(f"{program.name} has more than {MAX_SCALARS} scalars")
    if sum(map(len, program.reductions)) > MAX_REDUCTIONS or len(slots.vectors) > 2 * MAX_REDUCTIONS:
        raise NativeUnavailable(f"{program.name} has more than {MAX_REDUCTIONS} reductions")


@functools.cache
def _kernel(program: Program, found: Library) -> Kernel | NativeUnavailable:
    try:
        _check_limits(program)
        name, text = emit(program)
        entry = found.find(name)
        if entry is None:
            entry = compile_kernel(name, text, found.isa)
        found.check(entry, program.name)
        return Kernel(found, program, entry)
    except NativeUnavailable as reason:
        return reason
    except OSError as error:  # a full disk, a quota
        return NativeUnavailable(f"{program.name} could not be compiled ({error}); make room or set FALLLINE_CACHE_DIR")


def kernel(program: Program) -> Kernel:
    """The kernel, or :class:`NativeUnavailable` with the reason."""
    found = _kernel(program, library())
    if isinstance(found, NativeUnavailable):
        raise found
    return found
