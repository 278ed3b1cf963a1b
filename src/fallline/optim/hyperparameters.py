"""The hyperparameters of groups as the equations use them: checked once per set of values, equal sets found.

Groups with equal hyperparameters form one class, so that a group per tensor costs no more than one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from torch import Tensor

from fallline.optim.options import GROUP_OPTIONS
from fallline.optimizers.description import Description

STEP = "step"


class Hyperparameters:
    """Those of the groups that one optimizer's description is about."""

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

    def shared_lr(self, groups: Iterable[Mapping[str, Any]]) -> float:
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
