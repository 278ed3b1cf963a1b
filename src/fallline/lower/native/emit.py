"""C++ for a program: one loop per pass, one function per stage.

The text depends only on the program, and its hash is the kernel's name.  A library that was built from other
equations therefore does not have the kernel, however old or new it is.
"""

from __future__ import annotations

import functools
import hashlib

from fallline.lower.native.packed import PackedPass
from fallline.lower.native.passes import Pass, ReducingPass
from fallline.lower.native.slots import Slots
from fallline.lower.native.stages import Stage
from fallline.rules.program import Program

ABI = 6
"""A part of every kernel's name; raise it when kernel.h changes the meaning of a segment."""


@functools.cache
def emit(program: Program) -> tuple[str, str]:
    """The kernel's name and its C++ functions, ending with an initialiser of its ``fl_entry``."""
    slots = Slots(program)
    count = len(program.reductions) + 1
    stages = [Stage(program, slots, k).text() for k in range(count)]
    passes = [ReducingPass(program, slots, k).text() for k in range(count - 1)]
    passes.append(Pass(program, slots, count - 1).text())
    packed = PackedPass(program, slots).text()
    functions = "\n".join(text for text in (*stages, *passes, packed) if text)
    digest = hashlib.sha256(f"{ABI}\n{functions}".encode()).hexdigest()[:12]
    name = "".join(c if c.isalnum() else "_" for c in program.name) + "_" + digest
    stage_names = ", ".join(f"@NAME@_stage{k}" if text else "nullptr" for k, text in enumerate(stages))
    pass_names = ", ".join(f"@NAME@_pass{k}" if text else "nullptr" for k, text in enumerate(passes))
    packed_name = "@NAME@_packed" if packed else "nullptr"
    entry = f'#define ENTRY_@NAME@ {{"@NAME@", FL_KERNEL_LAYOUT, {{{stage_names}}}, {{{pass_names}}}, {packed_name}}}\n'
    return name, (functions + entry).replace("@NAME@", name)


def translation_unit(kernels: dict[str, str], symbol: str) -> str:
    """A C++ file with these kernels and a table of them, ended by a null name."""
    entries = "".join(f"    ENTRY_{name},\n" for name in kernels)
    return (
        '#include "packed.h"\n\nnamespace {\n\n'
        + "\n".join(kernels.values())
        + f"\n}}  // namespace\n\n{symbol} = {{\n{entries}    {{nullptr, 0, {{}}, {{}}, nullptr}},\n}};\n"
    )
