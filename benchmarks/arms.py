"""AdamW by every name: ours, torch's and other packages', with the same hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import Parameter

from fallline.step.implementations import Missing, build

HYPERS: dict[str, Any] = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


class NotInstalled(Exception):
    """A peer is missing or does not work here; the message says which and why."""


OURS = "fallline"
OURS_INT8 = "fallline int8"
TORCH = "torch fused"
DEEPSPEED = "DeepSpeed CPUAdam"
BITSANDBYTES = "bitsandbytes AdamW8bit"
TORCHAO = "torchao AdamW8bit"

LOW_BIT = {OURS_INT8, BITSANDBYTES, TORCHAO}
"""Those with 8-bit states."""

ADAMW: dict[str, str] = {
    OURS: "fused",
    OURS_INT8: "fused",
    TORCH: "torch-fused",
    "torch foreach": "torch-foreach",
    "torch loop": "torch-loop",
    DEEPSPEED: "deepspeed",
    BITSANDBYTES: "bitsandbytes",
    TORCHAO: "torchao",
}
"""Name in the report → implementation of `fallline step`."""


def adamw(name: str, params: Sequence[Parameter]) -> Any:
    """That AdamW over these parameters, one step done: some peers compile their kernel there."""
    try:
        optimizer = build(ADAMW[name], "adamw", params, HYPERS, "int8" if name == OURS_INT8 else "float32")
    except Missing as reason:
        raise NotInstalled(f"{name}: {reason}") from reason
    try:
        optimizer.step()
    except Exception as error:
        # A peer that does not work here is a row of the table, not the end of the run.
        if name in (OURS, OURS_INT8) or name.startswith("torch "):
            raise
        raise NotInstalled(f"{name}: does not work here ({type(error).__name__}: {error})") from error
    return optimizer


def tensors(shapes: Sequence[tuple[int, ...]], seed: int) -> list[Parameter]:
    """Parameters with gradients of the usual sizes, the same for every arm."""
    generator = torch.Generator().manual_seed(seed)
    params = []
    for shape in shapes:
        param = Parameter(torch.randn(shape, generator=generator).mul_(0.02))
        param.grad = torch.randn(shape, generator=generator).mul_(1e-3)
        params.append(param)
    return params
