"""How many streams of memory an optimizer's step reads and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.registry import find
from fallline.rules.annotations import State
from fallline.rules.graph import Space
from fallline.rules.program import Program


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass over the elements: streams read, and streams written (each of them also read)."""

    reads: int
    writes: int

    @property
    def bytes_per_parameter(self) -> int:
        """In float32."""
        return 4 * (self.reads + self.writes)


def passes(name: str, **options: Any) -> tuple[Pass, ...]:
    """The passes of an optimizer's step in float32.

    >>> passes("adamw"), passes("sgd", momentum=0.9)
    ((Pass(reads=4, writes=3),), (Pass(reads=3, writes=2),))
    """
    program = _program(name, options)
    found = []
    last = len(program.reductions)
    for k in range(last + 1):
        read = {n.attr for n in program.pass_nodes(k) if n.op == "operand" and n.space == Space.FULL}
        found.append(Pass(len(read), len(program.writes) if k == last else 0))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Bytes:
    """Of one parameter."""

    moved: float
    """Read and written by a step that goes through memory as often as the equations need."""
    once: float
    """Read and written by a step whose later passes find in a cache what the first has read: no step moves less."""
    states: float
    """Held between steps."""


def bytes_per_parameter(name: str, dtype: str = "float32", state_dtype: str = "float32", **options: Any) -> Bytes:
    """What a step has to move and to keep, for large tensors of that dtype with states in that format.

    ``AS_PARAMETERS`` is the format of packages that keep every state in the dtype of its parameter.

    >>> bytes_per_parameter("adamw"), bytes_per_parameter("adam", amsgrad=True).moved
    (Bytes(moved=28.0, once=28.0, states=8.0), 36.0)
    >>> round(bytes_per_parameter("adamw", state_dtype="int8").moved, 1)
    16.1
    """
    program = _program(name, options)
    full = {n: s for n, s in program.states.items() if s.shape is None}
    sizes = {n: _state_bytes(state_dtype, s, dtype) for n, s in full.items()}
    ends = {program.param: WIDTHS[dtype], program.grad: WIDTHS[dtype], **sizes}
    read = [{n.attr for n in program.pass_nodes(k) if n.op == "operand"} for k in range(len(program.reductions) + 1)]
    written = sum(ends.get(n, 0.0) for n in program.writes)
    moved, once = (sum(ends.get(n, 0.0) for names in sets for n in names) for sets in (read, [set().union(*read)]))
    return Bytes(moved + written, once + written, sum(sizes.values()))


WIDTHS = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "float64": 8.0}
AS_PARAMETERS = "as parameters"


def _state_bytes(state_dtype: str, state: State, dtype: str) -> float:
    from fallline.formats import block_format

    if state_dtype == AS_PARAMETERS:
        return WIDTHS[dtype]
    if state_dtype == "float32" or not state.low_bit:
        return 4.0
    return 2.0 if state_dtype == "bfloat16" else float(block_format(state_dtype, state.kind).bytes_per_element)


def _program(name: str, options: Mapping[str, Any]) -> Program:
    described = find(name)
    values = {n: v for n, v in {**described.defaults, **options}.items() if n not in GROUP_OPTIONS}
    return described.rule.program(described.rule.trace_for(described.expand(values), 2))
