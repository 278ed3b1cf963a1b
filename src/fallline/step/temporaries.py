"""What a step allocates beside parameters, gradients and states: counted on tensors that have sizes but no memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fallline.measure.memory import LiveBytes
from fallline.step.implementations import build
from fallline.step.shapes import Shapes

TRACED = ("eager", "foreach", "torch-loop", "torch-foreach")
NONE = ("fused", "fused-loop", "torch-fused", "deepspeed")
GUESSED_COPIES = 8
"""Of the largest tensor, for implementations that cannot be counted."""


@functools.lru_cache(maxsize=256)
def step_temporaries(
    implementation: str,
    optimizer: str,
    options: tuple[tuple[str, Any], ...],
    shapes: Shapes,
    dtype: str,
    state_dtype: str = "float32",
) -> int:
    """Bytes at the peak of a step."""
    if implementation in NONE:
        return 0
    if implementation not in TRACED:
        return GUESSED_COPIES * 4 * max(map(math.prod, shapes), default=0)
    params = _params(shapes, dtype)
    with _MadeUpValues():
        made = build(implementation, optimizer, params, dict(options), state_dtype)
        made.step()
        return allocated_by_step(made, params)


def allocated_by_step(optimizer: Any, params: Sequence[torch.nn.Parameter]) -> int:
    """Bytes at the peak of a step, which is taken, beyond those held before."""
    held = [*params, *(param.grad for param in params if param.grad is not None)]
    held += [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    with LiveBytes(held) as live:
        before = live.now
        optimizer.step()
    return live.peak - before


class _MadeUpValues(TorchDispatchMode):
    """Rules that read a sum between passes (LAMB, Prodigy, Amos) read 1 where there is nothing to read."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        from_meta = bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_meta
        if from_meta and function is torch.ops.aten._local_scalar_dense.default:
            return 1.0
        if from_meta and function is torch.ops.aten._to_copy.default and options.get("device") == torch.device("cpu"):
            return torch.ones(args[0].shape, dtype=options.get("dtype") or args[0].dtype)
        return function(*args, **options)


def _params(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[torch.nn.Parameter]:
    with torch.device("meta"):
        made = [torch.nn.Parameter(torch.empty(shape, dtype=getattr(torch, dtype))) for shape in shapes]
    for param in made:
        param.grad = torch.empty_like(param)
    return made
