"""What a step needs and steps have in common: parameters sorted by program and lowering, each ready to run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fallline.lower.item import FACTS, Item
from fallline.optim.choose import Choice
from fallline.optim.fingerprint import Fingerprint
from fallline.optim.group_reader import GroupReader
from fallline.optim.scalars import HostScalars
from fallline.optim.watched import Watched
from fallline.rules.program import Program
from fallline.rules.rule import Rule


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
    """Parameters that one executor steps: the same program, lowering and sign of the gradient."""

    def __init__(self, rule: Rule, program: Program, choice: Choice, maximize: bool, members: Sequence[Member]):
        self.rule, self.program, self.choice, self.maximize = rule, program, choice, maximize
        self.members = list(members)
        self.params = [m.param for m in members]
        self.items = [m.item for m in members]
        self.numbers = [m.number for m in members]
        self.groups = [m.group for m in members]
        self.layouts = [layout_of(p) for p in self.params]
        self.executor = choice.lowering.prepare(program, self.items)
        self.alike: Fingerprint | None = None
        """Of parameters and gradients as they were bound, if the executor reads them where they are."""
        self.complete = False
        """Whether every parameter has a gradient in this step."""
        self.zeros = [0] * len(self.items)
        self.rounds_at_random = any(item.rounds_at_random for item in self.items)
        states = program.states
        self.scalar_inputs = [n for n in program.host_inputs if n in states and states[n].shape == "scalar"]
        self.where = np.array(self.numbers)
        """Where its parameters' counters are in the flat array of all."""
        wants_facts = not {*FACTS, "total"}.isdisjoint(program.host_inputs)
        self.facts = [item.facts for item in self.items] if wants_facts else None
        self.companions: dict[Program, Bucket] = {}

    @property
    def is_coupled(self) -> bool:
        """Whether it may have only a part of what a reduction runs over."""
        return self.program.couples_parameters or any(item.place is not None for item in self.items)

    def rebind(self, grads: Sequence[Tensor | None]) -> bool:
        """Takes the gradients if they and the parameters are as those of the last ``bind``; nothing happened if not."""
        if self.alike is None or not self.alike.matches((*self.params, *grads)):
            return False
        self.complete = True
        self.executor.rebind(grads)  # type: ignore[arg-type]
        return True

    def bind(self, given: Sequence[Tensor | None], grads: Sequence[Tensor | None]) -> None:
        """Takes gradients that were checked one by one; ``given`` are those of the parameters, as they are there."""
        self.complete = all(g is not None for g in grads)
        in_place = self.executor.bind(grads) and self.complete and all(map(_is_same_memory, given, grads))
        self.alike = Fingerprint((*self.params, *given)) if in_place else None  # type: ignore[arg-type]

    def is_outdated(self, positions: Sequence[int]) -> bool:
        """Whether the ``data`` of one of these parameters has become another view of the same memory."""
        return any(layout_of(self.params[i]) != self.layouts[i] for i in positions)

    def present(self) -> Sequence[int]:
        """The parameters that take part in this step."""
        return range(len(self.items)) if self.complete else self.executor.active()

    def companion(self, program: Program) -> Bucket:
        """Another program (a norm of the gradients, an entry point) over the same parameters and gradients."""
        found = self.companions.get(program)
        if found is None:
            found = self.companions[program] = Bucket(self.rule, program, self.choice, self.maximize, self.members)
        if not program.uses_gradient:
            return found
        grads = self.executor.grads
        found.complete = self.complete
        if found.alike is not None and found.alike is self.alike:
            found.executor.rebind(grads)  # type: ignore[arg-type]
        else:
            found.executor.bind(grads)
            found.alike = self.alike
        return found

    def release(self) -> None:
        self.executor.release()
        for companion in self.companions.values():
            companion.release()


def _is_same_memory(given: Any, taken: Any) -> bool:
    """Whether a gradient is taken as it is."""
    return bool(given.dtype == taken.dtype and given.data_ptr() == taken.data_ptr())


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
    """The states as they are once the step is made: one that is refused must leave no state behind."""
    readers: list[GroupReader]
    """Of each group."""
    settings: list[tuple[Any, ...]]
    """Per group, what the specialisation was chosen from."""
    forms: list[tuple[Any, ...]]
    """Per group, what was chosen."""
    masters: list[tuple[Tensor, Tensor]]
    """16-bit parameters with their float32 master weights."""
    scalars: HostScalars
    versions: list[int] = dataclasses.field(default_factory=list)
    """Autograd's counters of these parameters after the last step: tells when one was written to."""

    def have_states_moved(self) -> bool:
        """Whether somebody has given states or counters other memory."""
        if self.scalars.has_moved():
            return True
        for bucket in self.buckets:  # noqa: SIM110, any() costs twice as much, in every step
            if bucket.executor.has_moved():
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
        """The plan as if these still waited for their first gradient.  Their states may begin as a copy of the weights,
        which must be made from the weights that their first step finds."""
        others = [[m for m in bucket.members if m.param not in newcomers] for bucket in self.buckets]
        params = [param for param in self.params if param not in newcomers]
        return dataclasses.replace(
            self,
            buckets=[
                Bucket(bucket.rule, bucket.program, bucket.choice, bucket.maximize, members)
                for bucket, members in zip(self.buckets, others, strict=True)
                if members
            ],
            params=params,
            pointers=[param.data_ptr() for param in params],
            waiting=[*self.waiting, *newcomers],
            completed={param: entry for param, entry in self.completed.items() if param not in newcomers},
            masters=[(param, master) for param, master in self.masters if param not in newcomers],
        )

    def release(self) -> None:
        for bucket in self.buckets:
            bucket.release()
