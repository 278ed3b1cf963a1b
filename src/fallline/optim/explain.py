"""Which lowering steps which parameters: data that also prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.optim.choose import choose_lowering
from fallline.optim.group_reader import Readers
from fallline.optim.pieces import Pieces
from fallline.optim.printed import Printed, Stepped
from fallline.optim.states import bare_item

if TYPE_CHECKING:
    from fallline.document.blocks import Document


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

    def _repr_html_(self) -> str:
        """Shown in a notebook as a table."""
        from fallline.document.html.fragment import fragment

        return fragment(_document(self.parts, self.waiting))


def _lines(parts: Sequence[SteppedBy], waiting: int) -> list[str]:
    several = len({part.rule for part in parts}) > 1
    lines = []
    for part in parts:
        named = f"group{'s' if len(part.groups) > 1 else ''} {', '.join(map(str, part.groups))}"
        tensors = f"{part.tensors} tensor{'s' if part.tensors > 1 else ''}"
        rule = f"{part.rule}, " if several else ""
        lines.append(f"{named}: {tensors}, {part.elements:,} elements: {rule}{part.lowering} ({part.reason})")
    if waiting:
        lines.append(_waiting(waiting))
    return lines


def _waiting(count: int) -> str:
    return f"{count} parameter{'s have' if count > 1 else ' has'} had no gradient yet, and no state"


def _document(parts: Sequence[SteppedBy], waiting: int) -> Document:
    from fallline.document.blocks import Document, Note, Table
    from fallline.document.cells import Cell, Column, Number, Text

    columns = [
        Column("groups", align="left", key=True),
        Column("rule", align="left"),
        Column("tensors", digits="whole"),
        Column("elements", digits="thousands"),
        Column("runs by", align="left"),
        Column("why", align="left", prose=True),
    ]
    rows: list[list[Cell]] = [
        [
            Text(", ".join(map(str, part.groups))),
            Text(part.rule),
            Number(part.tensors),
            Number(part.elements),
            Text(part.lowering),
            Text(part.reason),
        ]
        for part in parts
    ]
    return Document([Table("", columns, rows), *([Note(_waiting(waiting))] if waiting else [])])


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
