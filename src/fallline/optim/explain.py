"""Which lowering steps which parameters: data that also prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.optim.choose import choose_lowering
from fallline.optim.group_reader import Readers
from fallline.optim.pieces import Pieces
from fallline.optim.printed import Printed, Stepped
from fallline.optim.states import bare_item


@dataclasses.dataclass(frozen=True)
class SteppedBy(Stepped):
    """Parameters that one lowering steps for one reason."""

    lowering: str
    reason: str
    """Why this lowering, or why not a faster one."""


class Explanation(Printed[SteppedBy]):
    """The result of ``optimizer.explain()``."""

    waiting: int
    """Parameters that had no gradient yet, and so have no state."""


def _lines(parts: Sequence[SteppedBy], waiting: int) -> list[str]:
    several = len({part.rule for part in parts}) > 1
    lines = []
    for part in parts:
        named = f"group{'s' if len(part.groups) > 1 else ''} {', '.join(map(str, part.groups))}"
        tensors = f"{part.tensors} tensor{'s' if part.tensors > 1 else ''}"
        rule = f"{part.rule}, " if several else ""
        lines.append(f"{named}: {tensors}, {part.elements:,} elements: {rule}{part.lowering} ({part.reason})")
    if waiting:
        parameters = f"{waiting} parameter{'s have' if waiting > 1 else ' has'}"
        lines.append(f"{parameters} had no gradient yet, and no state")
    return lines


def explain(
    readers: Readers,
    groups: Sequence[Mapping[str, Any]],
    states: Mapping[Tensor, Any],
    pieces: Pieces,
) -> Explanation:
    found: dict[tuple[str, str, str], list[tuple[int, Tensor]]] = {}
    waiting = 0
    for g, group in enumerate(groups):
        reader = readers.of(group)
        reader.check(group)
        for param in group["params"]:
            if is_lazy(param):
                waiting += 1
                continue
            piece = pieces.of(param)
            choice = choose_lowering(reader.program(group, len(piece.shape)), bare_item(piece), group)
            key = (reader.description.name, choice.lowering.name, choice.reason)
            found.setdefault(key, []).append((g, param))
            waiting += not states.get(param) and param.grad is None
    parts = tuple(
        SteppedBy(
            rule=rule,
            lowering=lowering,
            reason=reason,
            groups=tuple(dict.fromkeys(g for g, _ in members)),
            tensors=len(members),
            elements=sum(param.numel() for _, param in members),
        )
        for (rule, lowering, reason), members in found.items()
    )
    explanation = Explanation.of(parts, _lines(parts, waiting))
    explanation.waiting = waiting
    return explanation
