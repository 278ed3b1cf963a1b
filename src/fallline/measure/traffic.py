"""How many streams of memory an optimizer's step reads and writes."""

from __future__ import annotations

import dataclasses
from typing import Any

from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.registry import find
from fallline.rules.graph import Space


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
    described = find(name)
    values = {n: v for n, v in {**described.defaults, **options}.items() if n not in GROUP_OPTIONS}
    program = described.rule.program(described.rule.trace_for(described.expand(values), 2))
    found = []
    last = len(program.reductions)
    for k in range(last + 1):
        read = {n.attr for n in program.pass_nodes(k) if n.op == "operand" and n.space == Space.FULL}
        found.append(Pass(len(read), len(program.writes) if k == last else 0))
    return tuple(found)
