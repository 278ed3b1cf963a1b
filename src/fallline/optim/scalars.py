"""Every number of a step in one place: counters, scalar states, hyperparameters, and what the equations make of them.

This form lives on the host, in Python floats and numpy arrays: equations on scalars run once per set of equal values,
not once per parameter.  A form on a device would hold the same numbers in tensors and write them without coming back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fallline.formats import rounding_key
from fallline.lower.executor import Deferred, StepScalars
from fallline.optim.group_reader import GroupReader, Readers
from fallline.optim.hyperparameters import STEP
from fallline.rules.rule import Rule

if TYPE_CHECKING:
    from fallline.optim.plan import Bucket

Groups = Sequence[dict[str, Any]]
ScalarWrite = tuple[Any, str, float]
"""(row of a parameter, several of them, or a group; name, value): written when every bucket has read the old values."""


def counter_dtype() -> torch.dtype:
    """As torch counts: in float64 where that is the default dtype, otherwise in float32, exact to 16 million steps."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


class Counters:
    """The step counters of all parameters, in one flat tensor; those in the states are views of it.

    Remembers whether all are equal, which is the rule, instead of comparing a thousand of them at every step.

    Autograd's version of the tensor tells when somebody else has written to one of its views.
    """

    def __init__(self, flat: Tensor):
        self.flat = flat
        # numpy's view of the same memory: its operations start faster than torch's.
        self.array = flat.numpy()
        self.address = flat.data_ptr()
        """Where numpy's view is; the tensor has left it after ``share_memory_()`` on one of its views."""
        self.common: float | None = None
        """The value of all counters, None if they differ; as long as ``version`` is that of the tensor."""
        self.version = -1

    def compare(self) -> None:
        """Finds out whether all are equal."""
        self.version = self.flat._version
        self.common = float(self.array[0]) if len(self.array) and (self.array == self.array[0]).all() else None

    def advance_all(self) -> None:
        if self.common is None:
            self.array += 1.0
        else:
            self.common += 1.0
            self.array.fill(self.common)  # in a small step the addition would take longer than the kernel

    def advance(self, rows: Any) -> None:
        self.array[rows] += 1.0
        self.version = -1

    def set(self, rows: Any, value: float) -> None:
        self.array[rows] = value
        self.version = -1


class HostScalars:
    """The numbers of a plan's parameters, and of the step that is being made."""

    def __init__(self, flat: Mapping[str, Tensor], readers: Readers, own: Mapping[int, GroupReader]):
        self.counters = Counters(flat[STEP])
        self._readers, self._own = readers, own
        """The readers of all groups, and those of the groups that have a parameter here, by number."""
        self._shares_lr = any(reader.hyperparameters.shares_lr for reader in own.values())
        self._counts_by_group = any(reader.rule.counts == "group" for reader in own.values())
        self.flat = {name: values.numpy() for name, values in flat.items()}
        """Counters and scalar states by name; at each parameter's row, its own."""
        self.scalar_states = [name for name in flat if name != STEP]

    # ------------------------------------------------------------------ before the kernels

    def read(self, groups: Groups, stepped: Sequence[tuple[Bucket, Sequence[int]]]) -> list[StepScalars]:
        """The numbers of this step, for each bucket with those of its parameters that take part; groups without one of
        them are not looked at."""
        self.groups = groups
        if self.counters.version != self.counters.flat._version:
            self.counters.compare()
        self.common_step = self.counters.common
        """The counter of every parameter, if all are equal."""
        self.writes: list[ScalarWrite] = []
        self._noted: set[tuple[Any, str]] = set()
        self.classes: list[dict[str, Any]] = []
        self.class_of_group: dict[int, int] = {}
        numbers: dict[Any, int] = {}
        for bucket, active in stepped:
            for g in bucket.all_groups if len(active) == len(bucket.items) else bucket.groups_of(active):
                if g not in self.class_of_group:
                    key, values = self._own[g].hyperparameters.values(groups[g])
                    number = numbers.setdefault((id(self._own[g]), key), len(self.classes))
                    if number == len(self.classes):
                        self.classes.append(values)
                    self.class_of_group[g] = number
        self.shared_lrs = shared_lrs(self._readers.of_all(groups), groups) if self._shares_lr else {}
        self.totals: dict[Rule, int] = {}
        """Elements of all parameters of a rule that take part, for means over all of them."""
        found = []
        for bucket, active in stepped:
            if bucket.program.couples_parameters:
                elements = sum(int(bucket.items[i].facts["numel"]) for i in active)
                self.totals[bucket.rule] = self.totals.get(bucket.rule, 0) + elements
        for bucket, active in stepped:
            complete = len(active) == len(bucket.items)
            follows = self.common_step is not None and bucket.depends_on_step_alone
            uniform = complete and (follows or self._is_uniform(bucket))
            scalars = self._uniform(bucket) if uniform else self._each(bucket, active)
            scalars.grad_factor = -1.0 if bucket.maximize else 1.0
            if bucket.rounds_at_random:
                scalars.keys = self._keys(bucket)
            found.append(scalars)
        return found

    def _is_uniform(self, bucket: Bucket) -> bool:
        """Whether its parameters differ in nothing but their group."""
        if bucket.facts is not None:
            return False
        for name in bucket.scalar_inputs if self.common_step is not None else (STEP, *bucket.scalar_inputs):
            values = self.flat[name][bucket.where]
            if not (values == values[0]).all():
                return False
        return True

    def _uniform(self, bucket: Bucket) -> StepScalars:
        """One set per class."""
        program, row = bucket.program, bucket.rows[0]
        step = float(self.flat[STEP][row]) if self.common_step is None else self.common_step
        own = {"step": step + 1.0, "first": step == 0.0, "shared_lr": self.shared_lrs.get(bucket.rule, 0.0)}
        for name in bucket.scalar_inputs:
            own[name] = float(self.flat[name][row])
        set_of, chosen = bucket.zeros, self.classes
        if len(chosen) > 1:
            sets_of_classes: dict[int, int] = {}
            set_of = [sets_of_classes.setdefault(self.class_of_group[g], len(sets_of_classes)) for g in bucket.groups]
            chosen = [self.classes[which] for which in sets_of_classes]
        sets, written = [], []
        for values in chosen:
            numbers, writes = program.host(*[values[n] if n in values else own[n] for n in program.host_inputs])
            sets.append(numbers)
            written.append(writes)
        if program.host_writes:
            self._note_all(bucket, set_of, written)
        return StepScalars(sets, set_of)

    def _each(self, bucket: Bucket, active: Sequence[int]) -> StepScalars:
        program, where = bucket.program, bucket.where[list(active)]
        sets: list[tuple[float, ...]] = []
        written: list[tuple[float, ...]] = []
        set_of = [0] * len(bucket.items)
        known: dict[tuple[Any, ...], int] = {}
        shared = {"total": self.totals.get(bucket.rule, 0), "shared_lr": self.shared_lrs.get(bucket.rule, 0.0)}
        steps: list[float] = self.flat[STEP][where].tolist()
        states = list(zip(*(self.flat[name][where].tolist() for name in bucket.scalar_inputs), strict=True))
        for position, i in enumerate(active):
            which, step = self.class_of_group[bucket.groups[i]], steps[position]
            facts = bucket.facts[i] if bucket.facts else {}
            own = states[position] if states else ()
            key = (which, step, own, tuple(facts.values()))
            number = known.get(key)
            if number is None:
                values = {"step": step + 1.0, "first": step == 0.0, **self.classes[which], **facts, **shared}
                values.update(zip(bucket.scalar_inputs, own, strict=True))
                computed, writes = program.host(*[values[name] for name in program.host_inputs])
                number = known[key] = len(sets)
                sets.append(computed)
                written.append(writes)
            set_of[i] = number
            for name, value in zip(program.host_writes, written[number], strict=True):
                self._note(bucket, i, name, value)
        return StepScalars(sets, set_of)

    def _keys(self, bucket: Bucket) -> list[dict[int, int]]:
        return [
            {
                operand.slot: rounding_key(
                    self.groups[g]["rounding_seed"],
                    int(self.flat[STEP][row]) + 1,
                    item.number,
                    operand.slot,
                )
                for operand in item.operands
                if operand.stochastic
            }
            for item, row, g in zip(bucket.rounding_items, bucket.rows, bucket.groups, strict=True)
        ]

    # ------------------------------------------------------------------ new values of scalar states

    def note_deferred(self, bucket: Bucket, active: Sequence[int], deferred: Deferred) -> None:
        """Remembers scalar states that followed from reductions."""
        for name, values in deferred.items():
            for i in active:
                self._note(bucket, i, name, values[i])

    def _note_all(self, bucket: Bucket, set_of: Sequence[int], written: Sequence[tuple[float, ...]]) -> None:
        """As ``_note`` for every parameter of a bucket, but at once."""
        for position, name in enumerate(bucket.program.host_writes):
            if self._shape(bucket, name) == "scalar":
                for number, values in enumerate(written):
                    chosen = bucket.where if len(written) == 1 else bucket.where[np.equal(set_of, number)]
                    self.writes.append((chosen, name, values[position]))
            else:
                for i in dict(zip(bucket.groups, range(len(bucket.groups)), strict=True)).values():
                    self._note(bucket, i, name, written[set_of[i]][position])

    def _note(self, bucket: Bucket, i: int, name: str, value: float) -> None:
        shape = self._shape(bucket, name)
        if shape == "scalar":
            self.writes.append((bucket.rows[i], name, value))
            return
        # The same for every parameter of the group, or of the optimizer: once is enough.
        owner: Any = bucket.groups[i] if shape == "group" else bucket.rule
        if (owner, name) not in self._noted:
            self._noted.add((owner, name))
            chosen = (
                [self.groups[owner]]
                if shape == "group"
                else [group for group in self.groups if self._readers.of(group).rule is bucket.rule]
            )
            self.writes.extend((group, name, int(value) if name == STEP else value) for group in chosen)

    def _shape(self, bucket: Bucket, name: str) -> Any:
        if name == STEP:
            return "group" if bucket.rule.counts == "group" else "scalar"
        return bucket.program.states[name].shape

    # ------------------------------------------------------------------ after the kernels

    def commit(self, stepped: Sequence[tuple[Bucket, Sequence[int]]]) -> None:
        """Counts the step for the parameters that took part, by bucket, and writes the new scalar states."""
        if sum([len(active) for _, active in stepped]) == len(self.counters.array):
            self.counters.advance_all()
        else:
            for bucket, active in stepped:
                self.counters.advance(bucket.where[list(active)])
        if self._counts_by_group:
            counted = {bucket.groups[i] for bucket, active in stepped if bucket.rule.counts == "group" for i in active}
            for g in counted:
                self.groups[g][STEP] += 1
        if self.writes:
            self.write()

    def write(self) -> None:
        """Writes the new scalar states."""
        for target, name, value in self.writes:
            if isinstance(target, dict):
                target[name] = value
            elif name == STEP:
                self.counters.set(target, value)
            else:
                self.flat[name][target] = value


def shared_lrs(readers: Sequence[GroupReader], groups: Groups) -> dict[Rule, float]:
    """The learning rate of each rule that needs one for all of its groups."""
    found: dict[Rule, float] = {}
    for reader in dict.fromkeys(readers):
        if reader.hyperparameters.shares_lr:
            own = [group for r, group in zip(readers, groups, strict=True) if r.rule is reader.rule]
            found[reader.rule] = reader.hyperparameters.shared_lr(own)
    return found
