"""List operations (``torch._foreach_*``) over all tensors with equal scalars: the portable fast form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers
from fallline.lower.eager import load_operands, share, store_results, totals
from fallline.lower.together import Late, Passes, alone
from fallline.lower.torch_source import torch_source
from fallline.rules.program import Program


def run_foreach(program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers) -> Late:
    return alone(foreach_passes(program, items, grads, numbers))


def foreach_passes(
    program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers
) -> Passes:
    source = torch_source(program, lists=True)
    together: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
    for i, (item, grad) in enumerate(zip(items, grads, strict=True)):
        if grad is not None or not program.uses_gradient:
            device = item.param.data.device
            together.setdefault((numbers.row_of[i], item.dtype, device), []).append(i)
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for k, one in enumerate(source.passes):
        last = one is source.passes[-1]
        for (row, dtype, _), members in together.items():
            loaded = [known[i] | load_operands(program, one, items[i], grads[i], numbers.grad_factor) for i in members]
            taken = [[values[node.index] for values in loaded] for node in one.takes]
            results = one.function(*taken, *numbers.rows[row], dtype)
            for position, i in enumerate(members):
                mine = [r[position] if isinstance(r, (list, tuple)) else r for r in results]
                if last:
                    store_results(program, items[i], mine, numbers, i, late)
                else:
                    known[i].update((n.index, r) for n, r in zip(one.gives, mine, strict=True))
        if not last:
            here = [known[i] for members in together.values() for i in members]
            share(program.reductions[k], here, (yield totals(program.reductions[k], here)))
    return late
