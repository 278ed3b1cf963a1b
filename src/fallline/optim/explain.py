"""Which lowering steps which parameters, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.lower.batch import real_shape
from fallline.optim.choose import Choice, choose_lowering
from fallline.optim.group_reader import GroupReader
from fallline.optim.planning import Groups
from fallline.optim.states import bare_item


def explain(reader: GroupReader, groups: Groups, states: Mapping[Tensor, Any]) -> str:
    found: dict[Choice, list[tuple[int, Tensor]]] = {}
    waiting = 0
    for g, group in enumerate(groups):
        reader.check(group)
        for param in group["params"]:
            if is_lazy(param):
                waiting += 1
                continue
            program = reader.description.rule.program(reader.trace(group, len(real_shape(param))))
            found.setdefault(choose_lowering(program, bare_item(param), group), []).append((g, param))
            waiting += not states.get(param) and param.grad is None
    lines = []
    for choice, members in found.items():
        numbers = list(dict.fromkeys(g for g, _ in members))
        tensors = f"{len(members)} tensor{'s' if len(members) > 1 else ''}"
        count = sum(param.numel() for _, param in members)
        named = f"group{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        lines.append(f"{named}: {tensors}, {count:,} elements: {choice.lowering} ({choice.reason})")
    if waiting:
        parameters = f"{waiting} parameter{'s have' if waiting > 1 else ' has'}"
        lines.append(f"{parameters} had no gradient yet, and no state")
    return "\n".join(lines)
