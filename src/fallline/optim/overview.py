"""Which rule steps which parameters, with which settings: data that also prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.optim.group_reader import Readers
from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.printed import Printed, Stepped

SHOWN_NAMES = 6


@dataclasses.dataclass(frozen=True)
class SteppedWith(Stepped):
    """Parameters that one rule steps with the same settings."""

    settings: Mapping[str, Any]
    """The learning rate, and every setting that is not the rule's default."""
    names: tuple[str, ...]
    """In the order of the groups; empty if the parameters came without names."""


def overview(readers: Readers, groups: Sequence[Mapping[str, Any]]) -> Printed[SteppedWith]:
    """The result of ``optimizer.describe()``."""
    alike: dict[tuple[str, str], list[int]] = {}
    shown = []
    for g, group in enumerate(groups):
        description = readers.of(group).description
        defaults = {**description.defaults, **{n: v for n, v in GROUP_OPTIONS.items() if n not in description.defaults}}
        values = {name: _plain(group[name]) for name in defaults if name in group}
        shown.append({name: value for name, value in values.items() if name == "lr" or value != defaults[name]})
        alike.setdefault((description.name, repr(shown[-1])), []).append(g)
    parts = tuple(_stepping(rule, shown[of[0]], of, groups) for (rule, _), of in alike.items())
    return Printed.of(parts, map(_line, parts))


def _stepping(rule: str, settings: dict[str, Any], of: list[int], groups: Sequence[Mapping[str, Any]]) -> SteppedWith:
    params = [param for g in of for param in groups[g]["params"]]
    return SteppedWith(
        rule=rule,
        settings=settings,
        groups=tuple(of),
        names=tuple(name for g in of for name in groups[g].get("param_names", ())),
        tensors=len(params),
        elements=sum(param.numel() for param in params if not is_lazy(param)),
    )


def _plain(value: Any) -> Any:
    """Numbers to compare with defaults: a rate may be a tensor, and betas a list."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _line(part: SteppedWith) -> str:
    settings = ", ".join(f"{name}={value!r}" for name, value in part.settings.items())
    names = ", ".join(part.names[:SHOWN_NAMES])
    if len(part.names) > SHOWN_NAMES:
        names += f" and {len(part.names) - SHOWN_NAMES} more"
    tensors = f"{part.tensors} tensor{'' if part.tensors == 1 else 's'}, {part.elements:,} elements"
    return ": ".join(filter(None, (part.rule, settings, tensors, names)))
