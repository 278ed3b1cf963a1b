"""The temporaries of a step of any implementation, besides parameters, gradients and states."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from fallline.memory.temporaries import MadeUpValues, allocated_by_step, on_meta, working_memory
from fallline.step.implementations import build
from fallline.step.shapes import Shapes

OURS = {"fused": "native", "fused-loop": "native each", "eager": "eager", "foreach": "foreach"}
"""The lowerings by which implementations of fallline run."""
TRACED = ("torch-loop", "torch-foreach")
NONE = ("torch-fused", "deepspeed")
GUESSED_COPIES = 8
"""The temporaries in multiples of the largest tensor, for implementations that cannot be counted."""


@functools.lru_cache(maxsize=256)
def step_temporaries(
    implementation: str,
    optimizer: str,
    options: tuple[tuple[str, Any], ...],
    shapes: Shapes,
    dtype: str,
    state_dtype: str = "float32",
) -> int:
    """The bytes at the peak of a step."""
    if implementation in NONE:
        return 0
    if implementation not in (*OURS, *TRACED):
        return GUESSED_COPIES * 4 * max(map(math.prod, shapes), default=0)
    empty = (torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape in shapes)
    params = [on_meta(torch.nn.Parameter(one)) for one in empty]
    if implementation in OURS:
        return sum(working_memory(build("eager", optimizer, params, dict(options), state_dtype), OURS[implementation]))
    with MadeUpValues():
        made = build(implementation, optimizer, params, dict(options), state_dtype)
        made.step()
        return allocated_by_step(made)
