"""What a step needs and steps have in common: parameters sorted by program and lowering, and described."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from fallline.lower.batch import Item, StepNumbers, shape_facts
from fallline.lower.compiled import run_compiled
from fallline.lower.eager import Late, run_eager
from fallline.lower.foreach import run_foreach
from fallline.lower.native.kernels import kernel
from fallline.lower.native.launch import Launch
from fallline.optim.choose import Choice
from fallline.rules.program import Program

PYTHON_LOWERINGS: dict[str, Callable[..., Late]] = {
    "eager": run_eager,
    "foreach": run_foreach,
    "compiled": run_compiled,
}


@dataclasses.dataclass(eq=False)
class Member:
    """One parameter in a bucket."""

    param: Tensor
    item: Item
    number: int
    """Its position among all parameters of the optimizer, in the order of the groups."""
    group: int
    name: str


class Bucket:
    """Parameters that one launch steps: the same program, lowering and sign of the gradient."""

    def __init__(self, program: Program, choice: Choice, maximize: bool, members: Sequence[Member]):
        self.program, self.choice, self.maximize = program, choice, maximize
        self.members = list(members)
        self.params = [m.param for m in members]
        self.items = [m.item for m in members]
        self.numbers = [m.number for m in members]
        self.groups = [m.group for m in members]
        self.has_views = any(p.is_complex() for p in self.params)
        self.launch: Launch | None = None
        if choice.lowering.startswith("native"):
            self.launch = Launch(kernel(program), self.items, each=choice.lowering == "native each")
        self.grads: Sequence[Tensor | None] = ()
        wants = set(program.host_inputs)
        self.facts = [shape_facts(m.item.shape, m.item.dtype) for m in members] if wants & FACT_NAMES else None
        self.companions: dict[Program, Bucket] = {}

    def bind_fast(self, grads: Sequence[Tensor | None]) -> bool:
        """Takes the gradients if all are there and as described; nothing happened if not."""
        if self.has_views or self.launch is None or not self.launch.bind_all(grads):
            return False
        self.grads = grads
        return True

    def bind(self, grads: Sequence[Tensor | None]) -> None:
        """Takes gradients that were checked one by one."""
        self.grads = grads
        if self.launch is not None:
            self.launch.bind_each(grads)

    def run(self, numbers: StepNumbers) -> Late:
        if self.launch is not None:
            return self.launch.run(numbers)
        return PYTHON_LOWERINGS[self.choice.lowering](self.program, self.items, self.grads, numbers)

    def companion(self, program: Program) -> Bucket:
        """Another program (a norm of the gradients, an entry point) over the same parameters."""
        found = self.companions.get(program)
        if found is None:
            found = self.companions[program] = Bucket(program, self.choice, self.maximize, self.members)
        if program.uses_gradient:
            found.bind(self.grads)
        return found


FACT_NAMES = {"numel", "rows", "cols", "batch", "lead", "lead_length", "dtype_eps", "total"}


@dataclasses.dataclass(eq=False)
class Plan:
    buckets: list[Bucket]
    params: list[Tensor]
    """Those with states, in the order of the optimizer."""
    ids: list[int]
    """Identities of all parameters of all groups: tells when a group was changed."""
    pointers: list[int]
    waiting: list[Tensor]
    """Parameters that never had a gradient, and so have no states."""
    states: Mapping[Tensor, Any]
    settings: list[tuple[Any, ...]]
    """Per group, what the specialisation was chosen from."""
