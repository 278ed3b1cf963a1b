"""Reads a parameter group: its rule, checked settings, the specialisation, first values.

A group may name a rule of its own (``"rule": "adamw"``); all that depends on a rule is therefore looked up by group.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.lower.item import real_shape
from fallline.optim.choose import check_possible
from fallline.optim.hyperparameters import STEP, Hyperparameters
from fallline.optim.layout import check_parameter
from fallline.optim.options import (
    GROUP_OPTIONS,
    IMPLEMENTATION,
    REFUSED,
    check_cautious,
    check_fixed,
    check_options,
)
from fallline.optimizers import description_named
from fallline.optimizers.description import Description
from fallline.rules.annotations import State
from fallline.rules.program import Program
from fallline.rules.rule import Rule
from fallline.rules.trace import Trace

RULE = "rule"
"""The key under which a group names a rule that is not its optimizer's."""
MODE = "train_mode"
"""The key under which a group of a rule with modes keeps whether its weights are those to train."""


class GroupReader:
    """Reads the groups of one rule."""

    def __init__(self, description: Description, optimizer: str):
        self.description, self.optimizer = description, optimizer
        self.hyperparameters = Hyperparameters(description)
        rule = description.rule
        spelled = {part: alias for alias, parts in rule.aliases.items() for part in parts}
        derived = [spelled.get(a, a) for names in rule.derived_from.values() for a in names if a != "ndim"]
        statics = [n for n in rule.statics if n not in rule.derive]
        self.options = ("maximize", *IMPLEMENTATION, *REFUSED, "rounding_seed", *description.torch_group)
        self.settings = itemgetter(*dict.fromkeys((*statics, *derived, "cautious", *self.options)))
        """The settings from which a group's specialisation, lowering and formats follow, or that are refused."""

    @property
    def rule(self) -> Rule:
        return self.description.rule

    @functools.cached_property
    def group_states(self) -> list[str]:
        """The entries that a group of this rule has beside its options."""
        names = [name for name, state in self.rule.states.items() if state.shape in ("group", "optimizer")]
        names += [STEP] if self.rule.counts == "group" else []
        return names + ([MODE] if self.description.has_modes else [])

    def check(self, group: Mapping[str, Any]) -> None:
        description = self.description
        check_options(group)
        description.check(
            {name: group[name] for name in description.defaults if name in group and name not in GROUP_OPTIONS}
        )
        check_fixed(group, description)
        check_cautious(group, description)

    def check_formats(self, group: Mapping[str, Any]) -> None:
        if group["state_dtype"] == "float32":
            return
        # Which states there are may depend on the number of axes: Adafactor factors matrices, but no vectors.
        axes = {len(real_shape(param)) for param in group["params"] if not is_lazy(param)} or {2}
        programs = [self.program(group, ndim) for ndim in sorted(axes)]
        if not any(state.low_bit for program in programs for state in program.states.values()):
            raise ValueError(
                f"state_dtype={group['state_dtype']!r}: with these options {self.optimizer} has no state that can "
                'be stored in so few bits; use "float32"'
            )

    def check_member(self, group: Mapping[str, Any], number: int, index: int) -> str:
        """Refuses a parameter that cannot be stepped as its group, of this number, wants; returns its name for
        messages."""
        param: Tensor = group["params"][index]
        names = group.get("param_names")
        name = f"parameter {names[index]!r}" if names else f"parameter {index} of group {number}"
        check_parameter(param, name)
        if param.is_complex() and self.rule.depends_on_axes:  # as pairs of reals it would have one axis more
            raise TypeError(
                f"{self.description.class_name} does not take complex parameters, as its equations depend on axes, and "
                f"{name} is {param.dtype}; use AdamW for it, or hold its real and imaginary part as parameters"
            )
        if param.ndim < self.rule.min_ndim:
            raise ValueError(
                f"{self.description.class_name} steps matrices, and {name} has {param.ndim} axes; "
                f'fallline.create("{self.description.name}", model) gives such parameters another rule'
            )
        check_possible(param, group, name)
        return name

    def hypers(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return {name: group[name] for name in self.description.defaults if name not in GROUP_OPTIONS}

    def initial(self, state: State, group: Mapping[str, Any]) -> float:
        if isinstance(state.init, str):
            values = self.description.expand(self.hypers(group))
            return float(values[state.init]) if state.init in values else 0.0  # "param" and "grad" are no numbers
        return state.init

    def trace(self, group: Mapping[str, Any], ndim: int) -> Trace:
        """The specialisation that steps a group's parameters of ``ndim`` axes."""
        values = self.description.expand(self.hypers(group))
        return self.rule.trace_for(values, ndim, cautious=group["cautious"])

    def program(self, group: Mapping[str, Any], ndim: int) -> Program:
        return self.rule.program(self.trace(group, ndim))

    def form(self, group: Mapping[str, Any]) -> tuple[Any, ...]:
        """The form that the settings amount to: flags derived from numbers instead of the numbers."""
        return (self.trace(group, 2), *(group[name] for name in self.options))


class Readers:
    """The reader of each group of an optimizer."""

    def __init__(self, description: Description, optimizer: str):
        self.own = GroupReader(description, optimizer)
        self._named: dict[str, GroupReader] = {}

    def of(self, group: Mapping[str, Any]) -> GroupReader:
        name = group.get(RULE)
        return self.own if name is None else self.named(name)

    def of_all(self, groups: Sequence[Mapping[str, Any]]) -> list[GroupReader]:
        """One for each group."""
        return [self.own if RULE not in group else self.of(group) for group in groups]

    def named(self, name: Any) -> GroupReader:
        """The reader of another rule, by its name in the registry."""
        found = self._named.get(name) if isinstance(name, str) else None
        if found is None:
            found = self._named[name] = GroupReader(description_named(name), self.own.optimizer)
            _check_companion(found.description, self.own)
        return found


def _check_companion(description: Description, own: GroupReader) -> None:
    """A rule with entry points of its own has methods, which only its own class has."""
    if description.rule is not own.rule and description.rule.entries:
        methods = " and ".join(f"{name}()" for name in description.rule.entries)
        raise ValueError(
            f"rule={description.name!r} needs {methods}, which {own.optimizer} does not have; make a "
            f"{description.class_name} and give the other groups a rule instead"
        )


def check_must_match(groups: Sequence[Mapping[str, Any]], readers: Sequence[GroupReader]) -> None:
    """Hyperparameters that act on all parameters of a rule together cannot differ between its groups."""
    first: dict[tuple[Any, str], Any] = {}
    for group, reader in zip(groups, readers, strict=True):
        for name in reader.description.must_match:
            value = first.setdefault((reader.rule, name), group[name])
            if group[name] != value:
                raise ValueError(
                    f"{name} must be the same in all groups of {reader.description.class_name}, "
                    f"got {value} and {group[name]}"
                )
