"""The numbers of a step: hyperparameters, counters and scalar states, turned into rows of scalars.

The host's part of a program runs once per set of equal values, not once per parameter: groups with equal
hyperparameters form one class, and parameters of one class and step share a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from torch import Tensor

from fallline.formats import rounding_key
from fallline.lower.batch import StepNumbers
from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.plan import Bucket, ScalarWrite
from fallline.optim.states import STEP
from fallline.optimizers.describe import Description


class GroupClasses:
    """Sorts groups into classes of equal hyperparameters, checking each new set of values once."""

    def __init__(self, description: Description):
        self.description = description
        self.by_group = description.rule.counts == "group"
        self.shares_lr = "shared_lr" in description.rule.arguments
        self.hypers = [n for n in description.defaults if n not in GROUP_OPTIONS]
        states = description.rule.states
        scalars = [n for n, s in states.items() if s.shape in ("group", "optimizer")]
        self.names = [*self.hypers, *scalars, *([STEP] if self.by_group else [])]
        bound = {name for requirement in description.requires for name in requirement.names}
        self.involved = {name for name in self.hypers if name in bound or name not in description.rule.hypers}
        """Hyperparameters that must be looked at together with others, or that are no single number."""
        # Two names at least: itemgetter gives a bare value for one.
        self.key_of = itemgetter(*self.names, "maximize", "maximize")
        self.known: dict[Any, dict[str, Any]] = {}
        self.last: tuple[Any, dict[str, Any]] | None = None
        """The last entry of ``known``."""

    def values(self, group: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A key that is equal for equal groups, and what the equations use."""
        key = self.key_of(group)
        try:
            found = self.known.get(key)
        except TypeError:
            found = None  # a list, which cannot be looked up
        if found is None:
            key = tuple([_plain(value) for value in key])
            found = self.known.get(key)
        if found is None:
            found = self._changed(key) or self._expand(key)
            if len(self.known) > 4096:
                self.known.clear()
            self.known[key] = found
            self.last = key, found
        return key, found

    def _expand(self, key: tuple[Any, ...]) -> dict[str, Any]:
        values = dict(zip(self.names, key, strict=False))
        self.description.check({name: values[name] for name in self.hypers})
        expanded = self.description.expand(values)
        for name, note in self.description.rule.hypers.items():
            expanded[name] = note.number(expanded[name])
        if self.by_group:
            expanded[STEP] += 1
        return expanded

    def _changed(self, key: tuple[Any, ...]) -> dict[str, Any] | None:
        """The same by what differs from the last values: a schedule changes one number in every step.  None if that is
        not so simple."""
        if self.last is None:
            return None
        before, known = self.last
        found = dict(known)
        for name, value, old in zip(self.names, key, before, strict=False):
            if value == old:
                continue
            if name in self.involved:
                return None
            if (note := self.description.rule.hypers.get(name)) is not None:
                note.check(name, value)
                value = note.number(value)
            found[name] = value + 1 if name == STEP and self.by_group else value
        return found

    def sort(self, groups: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[int]]:
        """The classes, and the class of each group."""
        numbers: dict[Any, int] = {}
        classes: list[dict[str, Any]] = []
        of_group = []
        for group in groups:
            key, values = self.values(group)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(classes)
                classes.append(values)
            of_group.append(number)
        return classes, of_group

    def shared_lr(self, groups: Sequence[Mapping[str, Any]]) -> float:
        """The learning rate of all groups, where a rule needs there to be one; a group with 0 rests."""
        if not self.shares_lr:
            return 0.0
        rates = sorted({float(group["lr"]) for group in groups})
        if len(rates) > 1 and (len(rates) > 2 or rates[0] != 0.0):
            raise ValueError(
                f"{self.description.class_name} needs the same lr in all groups, or 0 in groups that rest, "
                f"got {' and '.join(f'{rate:g}' for rate in rates)}"
            )
        return rates[-1]


_PLAIN = {float, int, bool, str, type(None)}


def _plain(value: Any) -> Any:
    """A hyperparameter as plain numbers: tensors are read here, once per step."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (Tensor, np.ndarray)) and len(value.reshape(-1)) == 1:
        return float(value)
    if isinstance(value, (tuple, list, Tensor, np.ndarray)):
        return tuple(_plain(v) for v in value)
    return value


class Rows:
    """Computes the rows of one step for any bucket."""

    def __init__(
        self,
        classes: GroupClasses,
        groups: Sequence[dict[str, Any]],
        flat: Mapping[str, np.ndarray],
        common_step: float | None,
    ):
        self.groups = groups
        self.by_group = classes.by_group
        self.classes, self.class_of_group = classes.sort(groups)
        self.flat = flat
        self.steps = flat[STEP]
        self.common_step = common_step
        """The counter of every parameter, if all are equal."""
        self.scalars = {name: values.tolist() for name, values in flat.items() if name != STEP}
        self.writes: list[ScalarWrite] = []
        self.total = 0
        """Elements of all parameters that take part, for means over all of them."""
        self.shared_lr = classes.shared_lr(groups)
        self._noted: set[tuple[int, str]] = set()

    def of(self, bucket: Bucket, active: Sequence[int]) -> StepNumbers:
        if len(active) == len(bucket.items) and self._is_uniform(bucket):
            numbers = self._uniform(bucket)
        else:
            numbers = self._each(bucket, active)
        if bucket.rounds_at_random:
            numbers.keys = self._keys(bucket)
        return numbers

    def _is_uniform(self, bucket: Bucket) -> bool:
        """Whether its parameters differ in nothing but their group."""
        if bucket.facts is not None:
            return False
        for name in bucket.scalar_inputs if self.common_step is not None else (STEP, *bucket.scalar_inputs):
            values = self.flat[name][bucket.where]
            if not (values == values[0]).all():
                return False
        return True

    def _uniform(self, bucket: Bucket) -> StepNumbers:
        """One row per class."""
        program, number = bucket.program, bucket.numbers[0]
        step = float(self.steps[number]) if self.common_step is None else self.common_step
        own = {"step": step + 1.0, "first": step == 0.0, "shared_lr": self.shared_lr}
        for name in bucket.scalar_inputs:
            own[name] = self.scalars[name][number]
        row_of, chosen = bucket.zeros, self.classes
        if len(chosen) > 1:
            rows_of_classes: dict[int, int] = {}
            row_of = [rows_of_classes.setdefault(self.class_of_group[g], len(rows_of_classes)) for g in bucket.groups]
            chosen = [self.classes[which] for which in rows_of_classes]
        rows, written = [], []
        for values in chosen:
            row, writes = program.host(*[values[n] if n in values else own[n] for n in program.host_inputs])
            rows.append(row)
            written.append(writes)
        if program.host_writes:
            self._note_all(bucket, row_of, written)
        return StepNumbers(rows, row_of)

    def _note_all(self, bucket: Bucket, row_of: Sequence[int], written: Sequence[tuple[float, ...]]) -> None:
        """As ``note`` for every parameter of a bucket, but at once."""
        for position, name in enumerate(bucket.program.host_writes):
            if self._shape(bucket, name) == "scalar":
                for row, values in enumerate(written):
                    chosen = bucket.where if len(written) == 1 else bucket.where[np.equal(row_of, row)]
                    self.writes.append((chosen, name, values[position]))
            else:
                for i in dict(zip(bucket.groups, range(len(bucket.groups)), strict=True)).values():
                    self.note(bucket, i, name, written[row_of[i]][position])

    def _each(self, bucket: Bucket, active: Sequence[int]) -> StepNumbers:
        program = bucket.program
        rows: list[tuple[float, ...]] = []
        written: list[tuple[float, ...]] = []
        row_of = [0] * len(bucket.items)
        known: dict[tuple[Any, ...], int] = {}
        steps: list[float] = self.steps.tolist()
        for i in active:
            number = bucket.numbers[i]
            which = self.class_of_group[bucket.groups[i]]
            facts = bucket.facts[i] if bucket.facts else {}
            own = tuple(self.scalars[name][number] for name in bucket.scalar_inputs)
            key = (which, steps[number], own, tuple(facts.values()))
            row = known.get(key)
            if row is None:
                step = steps[number]
                values = {"step": step + 1.0, "first": step == 0.0, **self.classes[which], **facts}
                values.update(total=self.total, shared_lr=self.shared_lr)
                values.update(zip(bucket.scalar_inputs, own, strict=True))
                computed, writes = program.host(*[values[name] for name in program.host_inputs])
                row = known[key] = len(rows)
                rows.append(computed)
                written.append(writes)
            row_of[i] = row
            for name, value in zip(program.host_writes, written[row], strict=True):
                self.note(bucket, i, name, value)
        return StepNumbers(rows, row_of)

    def note(self, bucket: Bucket, i: int, name: str, value: float) -> None:
        """Remembers the new value of a scalar state."""
        shape = self._shape(bucket, name)
        if shape == "scalar":
            self.writes.append((bucket.numbers[i], name, value))
            return
        # The same for every parameter of the group, or of the optimizer: once is enough.
        number = bucket.groups[i] if shape == "group" else -1
        if (number, name) not in self._noted:
            self._noted.add((number, name))
            chosen = self.groups if number < 0 else [self.groups[number]]
            self.writes.extend((group, name, int(value) if name == STEP else value) for group in chosen)

    def _shape(self, bucket: Bucket, name: str) -> Any:
        if name == STEP:
            return "group" if self.by_group else "scalar"
        return bucket.program.states[name].shape

    def _keys(self, bucket: Bucket) -> list[dict[int, int]]:
        return [
            {
                operand.slot: rounding_key(
                    self.groups[g]["rounding_seed"],
                    int(self.steps[item.number]) + 1,
                    item.number,
                    operand.slot,
                )
                for operand in item.operands
                if operand.stochastic
            }
            for item, g in zip(bucket.items, bucket.groups, strict=True)
        ]
