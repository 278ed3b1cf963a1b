"""The plan that steps share: parameters sorted by program and lowering, each ready to run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fallline.distributed.dtensors import local_of
from fallline.distributed.owned import OwnedExecutor
from fallline.lower.chain import prepare
from fallline.lower.executor import Executor
from fallline.lower.item import FACTS, Item, follow
from fallline.lower.transfer import Owner
from fallline.optim.choose import Choice
from fallline.optim.group_reader import RULE, GroupReader, Readers
from fallline.optim.roster import Groups, Roster, params_of
from fallline.optim.scalars import HostScalars
from fallline.optim.watched import Watched
from fallline.rules.chain import Chain
from fallline.rules.program import Program
from fallline.rules.rule import Rule


def settings_of(readers: Mapping[int, GroupReader], groups: Groups) -> dict[int, tuple[Any, ...]]:
    """For each group that has a reader here, what its specialisation is chosen from."""
    return {g: (groups[g].get(RULE), reader.settings(groups[g])) for g, reader in readers.items()}


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
    row: int
    """Where its counter and scalar states are in the flat arrays of a plan."""
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
        self.rows = [m.row for m in members]
        self.groups = [m.group for m in members]
        self.all_groups = tuple(dict.fromkeys(self.groups))
        self.layouts = [layout_of(m.local) for m in members]
        self.is_distributed = any(m.local is not m.param for m in members)
        self.executor = self._prepare()
        self.zeros = [0] * len(self.items)
        self.rounding_items = [m.whole or m.item for m in members]
        self.rounds_at_random = any(m.owner is not None or m.item.rounds_at_random for m in members)
        states = program.states
        self.scalar_inputs = [n for n in program.host_inputs if n in states and states[n].shape == "scalar"]
        self.where = np.array(self.rows)
        """The same rows, to index the flat arrays with."""
        wants_facts = not {*FACTS, "total"}.isdisjoint(program.host_inputs)
        self.facts = [item.facts for item in self.items] if wants_facts else None
        self.depends_on_step_alone = not wants_facts and not self.scalar_inputs
        """Whether its parameters differ in nothing but their group, once they have made the same number of steps."""
        self.is_coupled = program.couples_parameters or any(item.place is not None for item in self.items)
        """Whether it may have only a part of what a reduction runs over."""
        self.companions: dict[Program, Bucket] = {}
        self.masters = {i: item.param.data for i, item in enumerate(self.items) if item.low_precision_copy is not None}
        """The float32 master weights of 16-bit parameters."""
        self.versions: dict[int, int] = {}
        """Autograd's counters of these parameters after their last step: tell when one was written to."""

    def groups_of(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The groups that a few of its parameters are in."""
        return tuple(dict.fromkeys([self.groups[i] for i in positions]))

    def _prepare(self) -> Executor:
        owners = [m.owner for m in self.members if m.owner is not None]
        if not owners or not isinstance(self.program, Chain):
            return prepare(self.choice.lowering, self.program, self.items)
        wholes = {i: m.whole for i, m in enumerate(self.members) if m.whole is not None}
        return OwnedExecutor(self.choice.lowering, self.program, self.items, owners, wholes)

    @functools.cached_property
    def form(self) -> str:
        """A digest of what decides where its run stops, and for which reductions."""
        formats = [
            (item.number, tuple(item.whole_shape), *(o.format and o.format.name for o in item.operands))
            for item in self.items
        ]
        return hashlib.sha256(repr((self.program.name, self.program.trace, formats)).encode()).hexdigest()

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

    def follow_parameters(self, positions: Sequence[int]) -> None:
        """Master weights take over what somebody has written to these parameters since their last step."""
        for i in self._with_master(positions):
            if self._version(i) != self.versions.get(i):
                follow(self.masters[i], self.members[i].local)

    def note_versions(self, positions: Sequence[int]) -> None:
        """Notes that these parameters are as the step that was just made has left them."""
        for i in self._with_master(positions):
            self.versions[i] = self._version(i)

    def _version(self, i: int) -> int:
        param, local = self.params[i], self.members[i].local
        return param._version if param is local else param._version + local._version

    def _with_master(self, positions: Sequence[int]) -> list[int]:
        return [i for i in positions if i in self.masters]

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
    """All that steps share.  It covers every parameter that takes part in training, or the few that had a gradient."""

    roster: Roster
    buckets: list[Bucket]
    states: dict[Tensor, Any]
    """The states of the optimizer."""
    completed: dict[Tensor, Watched]
    """The states as they are once the step is made: one that is refused must leave no state behind."""
    readers: dict[int, GroupReader]
    """The reader of each group that has a parameter here."""
    settings: dict[int, tuple[Any, ...]]
    """For each of these groups, what the specialisation was chosen from."""
    forms: dict[int, tuple[Any, ...]]
    """For each of these groups, what was chosen."""
    scalars: HostScalars
    is_whole: bool
    """Whether it covers all parameters that had a gradient or states when it was made."""
    planned_apart: int
    """How many parameters were planned a few at a time since the last whole plan."""

    def __post_init__(self) -> None:
        self.place_of = {item.number: (bucket, i) for bucket in self.buckets for i, item in enumerate(bucket.items)}
        """Bucket and position of a parameter, by its number."""
        self.has_masters = any(bucket.masters for bucket in self.buckets)

    def rebind(self, groups: Groups, states: Mapping[Tensor, Any]) -> bool:
        """Takes this step's gradients if every parameter here, and no other one, has a gradient, and nothing but the
        memory of gradients has changed since the last ones were bound."""
        for bucket in self.buckets:
            if not bucket.executor.rebind():
                return False
        covered, known, counters = len(self.place_of), len(self.roster.params), self.scalars.counters
        return (
            self.states is states
            and counters.flat.data_ptr() == counters.address
            and self.roster.members.are_in(list(map(params_of, groups)))
            and (covered == known or covered == len(self.roster.members.with_gradient()))
            and (self.settings == settings_of(self.readers, groups) or self._has_forms(self.readers, groups))
        )

    def covers(self, numbers: Sequence[int], readers: Readers, groups: Groups, states: Mapping[Tensor, Any]) -> bool:
        """Whether these parameters are here, and the settings of their groups are those that the plan was made from.
        Where the memory of parameters and states lies is looked at when gradients are bound."""
        counters = self.scalars.counters
        if self.states is not states or counters.flat.data_ptr() != counters.address:
            return False
        if not all(number in self.place_of for number in numbers):
            return False
        own = {g: self.readers[g] for g in {self.roster.group_of[number] for number in numbers}}
        return all(readers.of(groups[g]) is reader for g, reader in own.items()) and self._has_forms(own, groups)

    def _has_forms(self, readers: Mapping[int, GroupReader], groups: Groups) -> bool:
        """Whether settings of these groups are the same, or have changed to some that amount to the same: a number (a
        schedule of the momentum), but no flag."""
        for g, found in settings_of(readers, groups).items():
            if found != self.settings[g]:
                if found[0] != self.settings[g][0] or readers[g].form(groups[g]) != self.forms[g]:
                    return False
                self.settings[g] = found
        return True

    def positions_of(self, numbers: Sequence[int]) -> dict[Bucket, list[int]]:
        """For each bucket, the positions of those of these parameters that it has."""
        found: dict[Bucket, list[int]] = {bucket: [] for bucket in self.buckets}
        for number in numbers:
            bucket, i = self.place_of[number]
            found[bucket].append(i)
        return found

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
        """The plan as if these had no gradient yet.  Their states may begin as a copy of the weights, which must be
        made from the weights that their first step finds."""
        others = [[m for m in bucket.members if m.param not in newcomers] for bucket in self.buckets]
        return dataclasses.replace(
            self,
            buckets=[
                Bucket(bucket.rule, bucket.program, bucket.choice, bucket.maximize, members)
                for bucket, members in zip(self.buckets, others, strict=True)
                if members
            ],
            completed={param: entry for param, entry in self.completed.items() if param not in newcomers},
        )

    def release(self) -> None:
        """Lets go of the gradients; an executor that has read them in C holds none."""
        for bucket in self.buckets:
            if bucket.executor.grads:
                bucket.executor.release()
            for companion in bucket.companions.values():
                companion.executor.release()
