"""A parameter group that joins an optimizer: its options completed and checked, its numbers at their start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.nn.parameter import is_lazy

from fallline.optim.group_reader import MODE, RULE, GroupReader, Readers, check_must_match
from fallline.optim.hyperparameters import STEP
from fallline.optim.layout import refuse_repeated
from fallline.optim.options import GROUP_OPTIONS, check_group_keys, state_dtype_name
from fallline.optim.scalars import shared_lrs


def complete(group: dict[str, Any], reader: GroupReader, readers: Readers, defaults: Mapping[str, Any]) -> None:
    """Checks the options of a group before torch adds it; one with another rule takes that rule's defaults."""
    check_group_keys(group, {RULE, *_options(reader), *reader.group_states}, readers.own.optimizer)
    if "state_dtype" in group:
        group["state_dtype"] = state_dtype_name(group["state_dtype"])
    if reader is not readers.own:
        shared = {name: defaults[name] for name in GROUP_OPTIONS if name not in reader.description.defaults}
        own = {**reader.description.settings(group), **reader.description.torch_group}
        for name, value in {**shared, **own}.items():
            group.setdefault(name, value)
    reader.check({**defaults, **group})
    refuse_repeated(group)


def keep_own_options(group: dict[str, Any], reader: GroupReader, readers: Readers, defaults: Mapping[str, Any]) -> None:
    """Takes out the options that torch has put in because the optimizer's own rule needs them."""
    if reader is not readers.own:
        for name in defaults.keys() - _options(reader).keys():
            del group[name]


def check(groups: Sequence[dict[str, Any]], readers: Readers) -> None:
    """Checks the last group beside those before it."""
    group = groups[-1]
    reader = readers.of(group)
    for index, param in enumerate(group["params"]):
        if not is_lazy(param):  # which has no shape before the first forward pass: looked at when it steps
            reader.check_member(group, len(groups) - 1, index)
    reader.check_formats(group)
    of_all = readers.of_all(groups)
    shared_lrs(of_all, groups)
    check_must_match(groups, of_all)


def begin(groups: Sequence[dict[str, Any]], readers: Readers, defaults: Mapping[str, Any]) -> None:
    """Sets the numbers that the last group keeps beside its options to their start."""
    group = groups[-1]
    reader = readers.of(group)
    alike = [other for other in groups[:-1] if readers.of(other).rule is reader.rule]
    for name, state in reader.rule.states.items():
        if state.shape == "optimizer" and alike:
            group[name] = alike[0][name]
        elif state.shape in ("group", "optimizer"):
            # A number of the whole optimizer starts from its own arguments, not from those of a group.
            start = defaults if state.shape == "optimizer" and reader is readers.own else group
            group.setdefault(name, float(reader.initial(state, start)))
    if reader.rule.counts == "group":
        group.setdefault(STEP, 0)
    if reader.description.has_modes:
        group[MODE] = alike[0].get(MODE, True) if alike else True


def _options(reader: GroupReader) -> dict[str, Any]:
    return {**GROUP_OPTIONS, **reader.description.defaults, **reader.description.torch_group}
