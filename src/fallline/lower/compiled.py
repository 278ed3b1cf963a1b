"""The eager form through ``torch.compile``.

Scalars are 0-d tensors and elementwise programs see flat tensors of symbolic length, so one compilation
serves every shape, learning rate and step; tensors of a single element are left to eager, because the
compiler specialises on the length 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, StepNumbers
from fallline.lower.eager import Late, combine_over_parameters, load_operands, run_eager, store_results
from fallline.lower.torch_source import torch_source
from fallline.rules.program import Program


@functools.lru_cache(maxsize=None)
def compiled_pass(program: Program, k: int) -> Callable[..., Any]:
    one = torch_source(program, tensor_scalars=True).passes[k]
    names = ", ".join(f"a{i}" for i in range(len(one.takes)))
    scalars = ", ".join(f"row[{i}]" for i in range(len(program.row)))
    scope: dict[str, Any] = {"function": one.function}
    # A fixed number of arguments: the compiler would guard on the length of a *args tuple.
    exec(f"def step(row, {names}):\n    return function({', '.join(x for x in (names, scalars) if x)})\n", scope)
    return torch.compile(scope["step"], dynamic=True, fullgraph=True)


def run_compiled(program: Program, items: Sequence[Item], grads: Sequence[Tensor | None], numbers: StepNumbers) -> Late:
    if not program.couples_parameters:
        single = [i for i, item in enumerate(items) if item.numel <= 1]
        if single:
            chosen: list[Tensor | None] = [grads[i] if i in single else None for i in range(len(items))]
            late = run_eager(program, items, chosen, numbers)
            rest = _run([i for i in range(len(items)) if i not in single], program, items, grads, numbers)
            return {name: [late[name][i] if i in single else v for i, v in enumerate(rest[name])] for name in rest}
    return _run(list(range(len(items))), program, items, grads, numbers)


def _run(
    chosen: Sequence[int],
    program: Program,
    items: Sequence[Item],
    grads: Sequence[Tensor | None],
    numbers: StepNumbers,
) -> Late:
    source = torch_source(program, tensor_scalars=True)
    active = [i for i in chosen if grads[i] is not None or not program.uses_gradient]
    # Truth values become 0 and 1: the generated code compares them.
    rows = [torch.tensor([float(x) for x in row], dtype=torch.float64) for row in numbers.rows]
    known: list[dict[int, Any]] = [{} for _ in items]
    late: Late = {name: [0.0] * len(items) for name in program.late_writes}
    for k, one in enumerate(source.passes):
        last = one is source.passes[-1]
        function = compiled_pass(program, k)
        for i in active:
            item = items[i]
            values = known[i] | load_operands(program, one, item, grads[i], numbers.grad_factor)
            taken = [values[node.index] for node in one.takes]
            if program.elementwise:
                taken = [value.reshape(-1) for value in taken]
            results = list(function(rows[numbers.row_of[i]].to(taken[0].device), *taken))
            if program.elementwise:
                results = [value.view(item.shape) if value.numel() == item.numel else value for value in results]
            if last:
                store_results(program, item, results, numbers, i, late)
            else:
                known[i].update((n.index, r) for n, r in zip(one.gives, results, strict=True))
        if not last:
            combine_over_parameters(one.gives, [known[i] for i in active])
    return late
