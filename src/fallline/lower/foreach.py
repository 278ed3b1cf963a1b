"""The portable fast lowering: list operations (``torch._foreach_*``) over all tensors with equal scalars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from fallline.lower.executor import StepScalars
from fallline.lower.torch_executor import Known, TorchExecutor, TorchLowering, passes_operands_on
from fallline.lower.torch_source import TorchSource, torch_source
from fallline.rules.space import Space

IN_CACHE = 1 << 18
"""Elements per part on a CPU: temporaries then stay in a cache, and the next part uses their memory again."""
SMALL_CACHE = ("cpu", "meta")
"""Devices on which lists are cut into parts; "meta" stands for a CPU where bytes are counted without memory."""


class ForeachExecutor(TorchExecutor):
    def make_source(self) -> TorchSource:
        return torch_source(self.program, lists=True, in_pieces=self.in_pieces)

    def compute(
        self, k: int, active: Sequence[int], known: Known, scalars: StepScalars
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        one, last = self.source.passes[k], k == len(self.source.passes) - 1
        for part in self.parts(active, scalars):
            taken_by_item = [self.taken(one, i, known, scalars.grad_factor) for i in part]
            taken = [list(values) for values in zip(*taken_by_item, strict=True)]
            results = one.function(*taken, *scalars.sets[scalars.set_of[part[0]]], self.items[part[0]].dtype)
            if last and self.only_copies(part):
                for name, values in zip(self.program.writes, results, strict=True):
                    torch._foreach_copy_([self.items[i].operand(self.program, name).data for i in part], values)
            else:
                for position, i in enumerate(part):
                    yield i, [r[position] if isinstance(r, (list, tuple)) else r for r in results]
            del taken_by_item, taken, results  # the next part uses their memory

    def parts(self, active: Sequence[int], scalars: StepScalars) -> list[list[int]]:
        """Groups of items for one list operation: equal scalars, dtype and device, and few enough elements on a CPU."""
        open_parts: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
        sizes: dict[tuple[int, torch.dtype, torch.device], int] = {}
        parts = []
        for i in active:
            item = self.items[i]
            device = item.param.data.device
            key = (scalars.set_of[i], item.dtype, device)
            size = sizes.get(key, 0) + item.numel
            if key not in open_parts or (device.type in SMALL_CACHE and size > IN_CACHE):
                open_parts[key], size = [], item.numel
                parts.append(open_parts[key])
            open_parts[key].append(i)
            sizes[key] = size
        return parts

    def only_copies(self, part: Sequence[int]) -> bool:
        """Whether only full-size values are stored and each of them can be copied as it is."""
        program = self.program
        return (
            not program.small_writes
            and not program.deferred_writes
            and not passes_operands_on(program)
            and all(node.space == Space.FULL for node in program.writes.values())
            and all(
                self.items[i].low_precision_copy is None and all(o.is_plain for o in self.items[i].operands)
                for i in part
            )
        )


class Foreach(TorchLowering):
    name = "foreach"
    automatic = True
    executor = ForeachExecutor
