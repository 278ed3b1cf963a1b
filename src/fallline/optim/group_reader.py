"""What a parameter group says about its parameters: checked settings, the specialisation of the rule, first values."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.lower.batch import real_shape
from fallline.optim.choose import check_possible
from fallline.optim.layout import check_parameter
from fallline.optim.options import (
    GROUP_OPTIONS,
    IMPLEMENTATION,
    REFUSED,
    check_cautious,
    check_fixed,
    check_options,
)
from fallline.optimizers.describe import Description
from fallline.rules.annotations import State
from fallline.rules.rule import Trace


class GroupReader:
    """Reads the groups of one kind of optimizer."""

    def __init__(self, description: Description, optimizer: str):
        self.description, self.optimizer = description, optimizer
        rule = description.rule
        spelled = {part: alias for alias, parts in rule.aliases.items() for part in parts}
        derived = [spelled.get(a, a) for names in rule.derived_from.values() for a in names if a != "ndim"]
        statics = [n for n in rule.statics if n not in rule.derive]
        self.options = ("maximize", *IMPLEMENTATION, *REFUSED, "rounding_seed", *description.torch_group)
        self.settings = itemgetter(*dict.fromkeys((*statics, *derived, "cautious", *self.options)))
        """What a group's specialisation, lowering and formats follow from, and what would have to be refused."""

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
        programs = [self.description.rule.program(self.trace(group, ndim)) for ndim in sorted(axes)]
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
        return self.description.rule.trace_for(values, ndim, cautious=group["cautious"])

    def form(self, group: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the settings amount to: flags derived from numbers instead of the numbers."""
        return (self.trace(group, 2), *(group[name] for name in self.options))
