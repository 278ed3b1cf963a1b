"""What a step needs and steps have in common: parameters sorted by program and lowering, and described."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers, shape_facts
from fallline.lower.compiled import compiled_passes
from fallline.lower.eager import eager_passes
from fallline.lower.foreach import foreach_passes
from fallline.lower.native.kernels import kernel
from fallline.lower.native.launch import Launch
from fallline.lower.together import Late, Passes, alone
from fallline.optim.choose import Choice
from fallline.optim.counters import Counters
from fallline.optim.states import STEP
from fallline.rules.program import Program

PYTHON_PASSES: dict[str, Callable[..., Passes]] = {
    "eager": eager_passes,
    "foreach": foreach_passes,
    "compiled": compiled_passes,
}

ScalarWrite = tuple[Any, str, float]
"""(parameter number, several of them, or a group; name, value): scalar states are written when all buckets have read
them."""


def layout_of(param: Tensor) -> tuple[Any, ...]:
    """What decides, together with the pointer, where and how a parameter's elements are read."""
    return param.shape, param.stride(), param.dtype, param.is_conj(), param.is_neg()


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
        self.layouts = [layout_of(p) for p in self.params]
        self.contiguous = list(map(Tensor.is_contiguous, self.params))
        self.has_views = any(p.is_complex() for p in self.params)
        self.launch: Launch | None = None
        if choice.lowering.startswith("native"):
            self.launch = Launch(kernel(program), self.items, each=choice.lowering == "native each")
        self._no_grads = (None,) * len(self.items)
        self.grads: Sequence[Tensor | None] = self._no_grads
        self.complete = False
        """Whether every parameter has a gradient in this step."""
        self.zeros = [0] * len(self.items)
        self.rounds_at_random = any(item.rounds_at_random for item in self.items)
        states = program.states
        self.scalar_inputs = [n for n in program.host_inputs if n in states and states[n].shape == "scalar"]
        self.where = np.array(self.numbers)
        """Of its parameters' counters in the flat array of all."""
        wants = set(program.host_inputs)
        self.facts = [shape_facts(m.item.shape, m.item.dtype) for m in members] if wants & FACT_NAMES else None
        self.companions: dict[Program, Bucket] = {}

    def bind_fast(self, grads: Sequence[Tensor | None]) -> bool:
        """Takes the gradients if all are there and as described; nothing happened if not."""
        if self.has_views or self.launch is None or not self._seems_unmoved() or not self.launch.bind_all(grads):
            return False
        self.grads, self.complete = grads, True
        return True

    def _seems_unmoved(self) -> bool:
        """The part of ``is_outdated`` that decides where a kernel finds an element: all of it would take longer than
        the step of a small model."""
        if list(map(Tensor.is_contiguous, self.params)) != self.contiguous:
            return False
        return self.program.elementwise or [p.shape for p in self.params] == [layout[0] for layout in self.layouts]

    def is_outdated(self) -> bool:
        """Whether a parameter's ``data`` has become another view of the same memory."""
        return any(layout_of(p) != layout for p, layout in zip(self.params, self.layouts, strict=True))

    def bind(self, grads: Sequence[Tensor | None]) -> None:
        """Takes gradients that were checked one by one."""
        self.grads, self.complete = grads, all(g is not None for g in grads)
        if self.launch is not None:
            self.launch.bind_each(grads)

    def release(self) -> None:
        """Lets go of the gradients: kept until the next step, they would stand beside the new ones in memory."""
        self.grads = self._no_grads
        for companion in self.companions.values():
            companion.release()

    def present(self) -> list[int]:
        """The parameters that have a gradient in this step; all of them if the program uses none."""
        if not self.program.uses_gradient:
            return list(range(len(self.items)))
        return [i for i, grad in enumerate(self.grads) if grad is not None]

    def run(self, numbers: StepNumbers) -> Late:
        if self.launch is not None:
            return self.launch.run(numbers)
        with torch.no_grad():
            return alone(self.passes(numbers))

    def passes(self, numbers: StepNumbers) -> Passes:
        """The same pass by pass, to wait for other buckets in between."""
        if self.launch is not None:
            return self.launch.passes(numbers)
        return PYTHON_PASSES[self.choice.lowering](self.program, self.items, self.grads, numbers)

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
    everyone: list[Tensor]
    """All parameters of all groups: tells when a group was changed."""
    pointers: list[int]
    waiting: list[Tensor]
    """Parameters that never had a gradient, and so have no states."""
    states: Mapping[Tensor, Any]
    settings: list[tuple[Any, ...]]
    """Per group, what the specialisation was chosen from."""
    forms: list[tuple[Any, ...]]
    """Per group, what was chosen."""
    masters: list[tuple[Tensor, Tensor]]
    """16-bit parameters with their float32 master weights."""
    counters: Counters
    flat: dict[str, np.ndarray]
    """Counters and scalar states of all parameters, by name."""
    versions: list[int] = dataclasses.field(default_factory=list)
    """Autograd's counters of these parameters after the last step: tells when one was written to."""

    def write_scalars(self, writes: Sequence[ScalarWrite]) -> None:
        for target, name, value in writes:
            if isinstance(target, dict):
                target[name] = value
            elif name == STEP:
                self.counters.set(target, value)
            else:
                self.flat[name][target] = value

    def release(self) -> None:
        for bucket in self.buckets:
            bucket.release()
