"""What a step needs and steps have in common: parameters sorted by program and lowering, and described."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
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
from fallline.optim.fingerprint import Fingerprint
from fallline.optim.states import STEP, Watched
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
        self.launch: Launch | None = None
        if choice.lowering.startswith("native"):
            self.launch = Launch(kernel(program), self.items, each=choice.lowering == "native each")
        self._no_grads = (None,) * len(self.items)
        self.grads: Sequence[Tensor | None] = self._no_grads
        self.alike: Fingerprint | None = None
        """Of parameters and gradients as they were bound, if the kernels take them as they are."""
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

    def bind_alike(self, grads: Sequence[Tensor | None]) -> bool:
        """Takes the gradients if they and the parameters are as those of the last ``bind``; nothing happened if not."""
        if self.alike is None or not self.alike.matches((*self.params, *grads)):
            return False
        self.grads, self.complete = grads, True
        if self.launch is not None:
            self.launch.bind_alike(grads)  # type: ignore[arg-type]
        return True

    def is_outdated(self) -> bool:
        """Whether a parameter's ``data`` has become another view of the same memory."""
        return any(layout_of(p) != layout for p, layout in zip(self.params, self.layouts, strict=True))

    def bind(self, given: Sequence[Tensor | None], grads: Sequence[Tensor | None]) -> None:
        """Takes gradients that were checked one by one; ``given`` are those of the parameters."""
        self.grads, self.complete = grads, all(g is not None for g in grads)
        if self.launch is not None:
            self.launch.bind(grads)
        self.alike = None
        if self.complete and all(map(_is_unconverted, given, grads)):
            self.alike = Fingerprint((*self.params, *given))  # type: ignore[arg-type]

    def release(self) -> None:
        """Lets go of the gradients: kept until the next step, they would stand beside the new ones in memory."""
        self.grads = self._no_grads
        for companion in self.companions.values():
            companion.release()

    def present(self) -> Sequence[int]:
        """The parameters that have a gradient in this step; all of them if the program uses none."""
        if self.complete or not self.program.uses_gradient:
            return range(len(self.items))
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
            found._share(self)
        return found

    def _share(self, other: Bucket) -> None:
        """Takes the gradients that another bucket has bound."""
        self.grads, self.complete = other.grads, other.complete
        if self.launch is None:
            return
        if self.alike is not None and self.alike is other.alike:
            self.launch.bind_alike(self.grads)  # type: ignore[arg-type]
        else:
            self.launch.bind(self.grads)
            self.alike = other.alike


def _is_unconverted(given: Any, taken: Any) -> bool:
    """Whether a gradient is read where it is."""
    return bool(given.dtype == taken.dtype and given.data_ptr() == taken.data_ptr())


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
    states: dict[Tensor, Any]
    """Of the optimizer."""
    completed: dict[Tensor, Watched]
    """What they are once the step is made: one that is refused must leave no state behind."""
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

    def have_states_moved(self) -> bool:
        """Whether somebody has given states or counters other memory."""
        if self.counters.has_moved():
            return True
        for bucket in self.buckets:  # noqa: SIM110, any() costs twice as much, in every step
            if bucket.launch is not None and bucket.launch.has_moved():
                return True
        return False

    def commit(self) -> None:
        """Puts the states that this plan has completed into the optimizer."""
        for param, entry in self.completed.items():
            known = self.states.get(param)
            if isinstance(known, Watched):
                known.replace(entry)
            else:
                dict.__setitem__(self.states, param, entry)
        self.completed = {}

    def without(self, newcomers: set[Tensor]) -> Plan:
        """As it would be if these still waited for their first gradient: a copy of their weights that is made before
        the first step is not that of the weights which it then finds."""
        others = [[m for m in bucket.members if m.param not in newcomers] for bucket in self.buckets]
        params = [param for param in self.params if param not in newcomers]
        return dataclasses.replace(
            self,
            buckets=[
                Bucket(bucket.program, bucket.choice, bucket.maximize, members)
                for bucket, members in zip(self.buckets, others, strict=True)
                if members
            ],
            params=params,
            pointers=[param.data_ptr() for param in params],
            waiting=[*self.waiting, *newcomers],
            completed={param: entry for param, entry in self.completed.items() if param not in newcomers},
            masters=[(param, master) for param, master in self.masters if param not in newcomers],
        )

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
