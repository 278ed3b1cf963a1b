"""The plan that steps share: parameters sorted by program and lowering, each ready to run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fallline.distributed.dtensors import local_of
from fallline.distributed.owned import OwnedExecutor
from fallline.lower.chain import prepare
from fallline.lower.executor import Executor
from fallline.lower.item import FACTS, Item, follow
from fallline.lower.native.torch_watch import NativeSameObjects
from fallline.lower.transfer import Owner
from fallline.lower.watch import SameObjects, with_gradient
from fallline.optim.choose import Choice
from fallline.optim.group_reader import RULE, GroupReader, Readers
from fallline.optim.scalars import HostScalars
from fallline.optim.watched import Watched
from fallline.rules.chain import Chain
from fallline.rules.program import Program
from fallline.rules.rule import Rule

Groups = Sequence[Mapping[str, Any]]

_params_of = itemgetter("params")


def all_params(groups: Groups) -> list[Tensor]:
    return list(chain.from_iterable(map(_params_of, groups)))


def settings_of(readers: Sequence[GroupReader], groups: Groups) -> list[tuple[Any, ...]]:
    """Per group, what its specialisation is chosen from."""
    return [(group.get(RULE), reader.settings(group)) for reader, group in zip(readers, groups, strict=True)]


def layout_of(param: Tensor) -> tuple[Any, ...]:
    """Everything that decides where and how a parameter's elements are read."""
    return param.data_ptr(), param.shape, param.stride(), param.dtype, param.is_conj(), param.is_neg()


@dataclasses.dataclass(eq=False)
class Member:
    """One parameter in a bucket."""

    param: Tensor
    local: Tensor
    """The part of the parameter that is in this process: its memory is what is stepped."""
    item: Item
    number: int
    """Its position among all parameters of the optimizer, in the order of the groups."""
    group: int
    name: str
    owner: Owner | None = None
    """The process that steps it with matrix functions, if it is in pieces or all processes have it."""
    whole: Item | None = None
    """At its owner, all of it with its states; otherwise the same as ``item``."""


class Bucket:
    """Parameters that one executor steps: the same program, lowering and sign of the gradient."""

    def __init__(self, rule: Rule, program: Program, choice: Choice, maximize: bool, members: Sequence[Member]):
        self.rule, self.program, self.choice, self.maximize = rule, program, choice, maximize
        self.members = list(members)
        self.params = [m.param for m in members]
        self.items = [m.item for m in members]
        self.numbers = [m.number for m in members]
        self.groups = [m.group for m in members]
        self.layouts = [layout_of(m.local) for m in members]
        self.is_distributed = any(m.local is not m.param for m in members)
        self.with_gradient = with_gradient(self.params)
        self.executor = self._prepare()
        self.zeros = [0] * len(self.items)
        self.rounding_items = [m.whole or m.item for m in members]
        self.rounds_at_random = any(m.owner is not None or m.item.rounds_at_random for m in members)
        states = program.states
        self.scalar_inputs = [n for n in program.host_inputs if n in states and states[n].shape == "scalar"]
        self.where = np.array(self.numbers)
        """Where its parameters' counters are in the flat array of all."""
        wants_facts = not {*FACTS, "total"}.isdisjoint(program.host_inputs)
        self.facts = [item.facts for item in self.items] if wants_facts else None
        self.depends_on_step_alone = not wants_facts and not self.scalar_inputs
        """Whether its parameters differ in nothing but their group, once they have made the same number of steps."""
        self.is_coupled = program.couples_parameters or any(item.place is not None for item in self.items)
        """Whether it may have only a part of what a reduction runs over."""
        self.companions: dict[Program, Bucket] = {}

    def _prepare(self) -> Executor:
        owners = [m.owner for m in self.members if m.owner is not None]
        if not owners or not isinstance(self.program, Chain):
            return prepare(self.choice.lowering, self.program, self.items)
        wholes = {i: m.whole for i, m in enumerate(self.members) if m.whole is not None}
        return OwnedExecutor(self.choice.lowering, self.program, self.items, owners, wholes)

    @functools.cached_property
    def form(self) -> Hashable:
        """What decides where its run stops, and for which reductions."""
        formats = [
            (item.number, tuple(item.whole_shape), *(o.format and o.format.name for o in item.operands))
            for item in self.items
        ]
        return self.program.name, self.program.trace, tuple(formats)

    def bind(self, given: Mapping[int, Tensor], grads: Mapping[int, Tensor]) -> None:
        """Takes gradients that were checked one by one; ``given`` are those of the parameters, as they are there."""
        complete = len(grads) == len(self.params)
        in_place = self.executor.bind(grads) and complete and all(_is_same_memory(given[i], grads[i]) for i in grads)
        self.executor.watch(self.params if in_place and not self.is_distributed else None)

    def tell_autograd(self, active: Sequence[int]) -> None:
        """Counts a write to DTensors, whose counters are not those of their local parts."""
        if self.is_distributed and self.program.param in self.program.writes:
            torch.autograd.graph.increment_version([self.params[i] for i in active])

    def is_outdated(self, positions: Sequence[int]) -> bool:
        """Whether one of these parameters, or a state of it, is no longer where it was or lies otherwise."""
        if any(layout_of(local_of(self.params[i])) != self.layouts[i] for i in positions):
            return True
        return self.executor.has_moved(positions)

    def companion(self, program: Program) -> Bucket:
        """Another program (a norm of the gradients, an entry point) over the same parameters and gradients."""
        found = self.companions.get(program)
        if found is None:
            found = self.companions[program] = Bucket(self.rule, program, self.choice, self.maximize, self.members)
        if not program.uses_gradient:
            return found
        found.executor.follow(self.executor)
        return found


def _is_same_memory(given: Tensor, taken: Tensor) -> bool:
    """Whether a gradient is taken as it is."""
    return bool(given.dtype == taken.dtype and given.data_ptr() == taken.data_ptr())


@dataclasses.dataclass(eq=False)
class Plan:
    buckets: list[Bucket]
    params: list[Tensor]
    """Those with states, in the order of the optimizer."""
    members: SameObjects | NativeSameObjects
    """Recognises the groups' lists of parameters."""
    waiting: list[Tensor]
    """Parameters that never had a gradient, and so have no states."""
    states: dict[Tensor, Any]
    """The states of the optimizer."""
    completed: dict[Tensor, Watched]
    """The states as they are once the step is made: one that is refused must leave no state behind."""
    readers: list[GroupReader]
    """The reader of each group."""
    settings: list[tuple[Any, ...]]
    """Per group, what the specialisation was chosen from."""
    forms: list[tuple[Any, ...]]
    """Per group, what was chosen."""
    masters: list[tuple[Tensor, Tensor]]
    """16-bit parameters with their float32 master weights."""
    scalars: HostScalars
    versions: list[int] = dataclasses.field(default_factory=list)
    """Autograd's counters of these parameters after the last step: tells when one was written to."""

    def is_current(self, readers: Readers, groups: Groups, states: Mapping[Tensor, Any]) -> bool:
        """Whether groups, their settings and the states are those that the plan was made from.  Where the memory of
        parameters and states lies is looked at when gradients are bound."""
        return (
            self.states is states
            and self.members.are_in(list(map(_params_of, groups)))
            and self.scalars.counters.flat.data_ptr() == self.scalars.counters.address
            and not (self.waiting and any(p.grad is not None for p in self.waiting))
            and (self.settings == settings_of(self.readers, groups) or self._has_form(readers, groups))
        )

    def _has_form(self, readers: Readers, groups: Groups) -> bool:
        """Whether settings that have changed amount to the same: a number (a schedule of the momentum), but no flag."""
        found = readers.of_all(groups)
        if found != self.readers or [r.form(group) for r, group in zip(found, groups, strict=True)] != self.forms:
            return False
        self.settings = settings_of(found, groups)
        return True

    def rebind(self, readers: Readers, groups: Groups, states: Mapping[Tensor, Any]) -> bool:
        """Takes this step's gradients if nothing but their memory has changed since the last ones were bound."""
        if not self.is_current(readers, groups, states):
            return False
        for bucket in self.buckets:  # noqa: SIM110, all() costs twice as much, in every step
            if not bucket.executor.rebind():
                return False
        return True

    def follow_parameters(self) -> None:
        """Master weights take over what somebody has written to a parameter since the last step."""
        if [param._version for param, _ in self.masters] != self.versions:
            for param, master in self.masters:
                follow(master, param)

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
            waiting=[*self.waiting, *newcomers],
            completed={param: entry for param, entry in self.completed.items() if param not in newcomers},
            masters=[(param, master) for param, master in self.masters if param not in newcomers],
        )

    def release(self) -> None:
        """Lets go of the gradients; an executor that has read them in C holds none."""
        for bucket in self.buckets:
            if bucket.executor.grads:
                bucket.executor.release()
            for companion in bucket.companions.values():
                companion.executor.release()
