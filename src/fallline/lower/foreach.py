"""List operations (``torch._foreach_*``) over all tensors with equal scalars: the portable fast form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers
from fallline.lower.eager import load_operand, passes_operands_on, share, store_results, totals
from fallline.lower.together import Late, Passes
from fallline.lower.torch_source import torch_source
from fallline.rules.graph import Space
from fallline.rules.program import Program

IN_CACHE = 1 << 18
"""Elements of a CPU's part: its temporaries stay in a cache, and their memory is used again by the next part."""
SMALL_CACHE = ("cpu", "meta")
"""Devices whose lists come in parts; tensors without memory stand for those of a CPU where bytes are counted."""


def foreach_passes(
    program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers
) -> Passes:
    source = torch_source(program, lists=True)
    active = [i for i, grad in enumerate(grads) if grad is not None or not program.uses_gradient]
    parts = _parts(items, active, numbers)
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for k, one in enumerate(source.passes):
        last = one is source.passes[-1]
        for part in parts:
            taken = [
                [load_operand(program, node.attr, items[i], grads[i], numbers.grad_factor) for i in part]
                if node.op == "operand"
                else [known[i][node.index] for i in part]
                for node in one.takes
            ]
            results = one.function(*taken, *numbers.rows[numbers.row_of[part[0]]], items[part[0]].dtype)
            if last:
                _store(program, items, part, results, numbers, late)
            else:
                for position, i in enumerate(part):
                    known[i].update((n.index, r) for n, r in zip(one.gives, _of_one(results, position), strict=True))
            del taken, results  # the next part uses their memory
        if not last:
            here = [known[i] for i in active]
            share(program.reductions[k], here, (yield totals(program.reductions[k], here)))
    return late


def _parts(items: Sequence[Item], active: Sequence[int], numbers: StepNumbers) -> list[list[int]]:
    """Items that one list operation may take together: equal scalars, dtype and device, and few enough elements on
    a CPU."""
    open_parts: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
    sizes: dict[tuple[int, torch.dtype, torch.device], int] = {}
    parts = []
    for i in active:
        item = items[i]
        device = item.param.data.device
        key = (numbers.row_of[i], item.dtype, device)
        size = sizes.get(key, 0) + item.numel
        if key not in open_parts or (device.type in SMALL_CACHE and size > IN_CACHE):
            open_parts[key], size = [], item.numel
            parts.append(open_parts[key])
        open_parts[key].append(i)
        sizes[key] = size
    return parts


def _store(
    program: Program,
    items: Sequence[Item],
    part: Sequence[int],
    results: Sequence[Any],
    numbers: StepNumbers,
    late: Late,
) -> None:
    if _copies(program, [items[i] for i in part]):
        for name, values in zip(program.writes, results, strict=True):
            torch._foreach_copy_([items[i].operand(program, name).data for i in part], values)
        return
    for position, i in enumerate(part):
        store_results(program, items[i], _of_one(results, position), numbers, i, late)


def _of_one(results: Sequence[Any], position: int) -> list[Any]:
    return [r[position] if isinstance(r, (list, tuple)) else r for r in results]


def _copies(program: Program, items: Sequence[Item]) -> bool:
    """Whether all that is to be stored are full-size values that can be copied as they are."""
    return (
        not program.small_writes
        and not program.late_writes
        and not passes_operands_on(program)
        and all(node.space == Space.FULL for node in program.writes.values())
        and all(item.echo is None and all(o.is_plain for o in item.operands) for item in items)
    )
