"""The streams of memory that an optimizer's step reads and writes."""

from __future__ import annotations

import dataclasses
from typing import Any

from fallline.memory.per_parameter import AS_PARAMETERS, WIDTHS, Bytes, bytes_of, program_of
from fallline.rules.space import Space


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass over the elements: streams read, and streams written (each of them also read)."""

    reads: int
    writes: int

    @property
    def bytes_per_parameter(self) -> int:
        """The bytes per element, in float32."""
        return 4 * (self.reads + self.writes)


def passes(name: str, **options: Any) -> tuple[Pass, ...]:
    """The passes of an optimizer's step in float32.

    >>> passes("adamw"), passes("sgd", momentum=0.9)
    ((Pass(reads=4, writes=3),), (Pass(reads=3, writes=2),))
    """
    program = program_of(name, **options)
    found = []
    last = len(program.reductions)
    for k in range(last + 1):
        read = {n.attr for n in program.pass_nodes(k) if n.op == "operand" and n.space == Space.FULL}
        found.append(Pass(len(read), len(program.writes) if k == last else 0))
    return tuple(found)


def bytes_per_parameter(name: str, dtype: str = "float32", state_dtype: str = "float32", **options: Any) -> Bytes:
    """The bytes that a step moves and keeps, for large tensors of this dtype with states in this format.

    ``AS_PARAMETERS`` is the format of packages that keep every state in the dtype of its parameter.

    >>> bytes_per_parameter("adamw"), bytes_per_parameter("adam", amsgrad=True).moved
    (Bytes(moved=28.0, once=28.0, states=8.0), 36.0)
    >>> round(bytes_per_parameter("adamw", state_dtype="int8").moved, 1)
    16.1
    """
    return bytes_of(program_of(name, **options), dtype, state_dtype)


__all__ = ["AS_PARAMETERS", "WIDTHS", "Bytes", "Pass", "bytes_per_parameter", "passes"]
