"""AdamW by every name: ours, torch's and other packages', with the same hyperparameters."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import Parameter

import fallline

HYPERS: dict[str, Any] = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


class NotInstalled(Exception):
    """A peer is missing or does not work here; the message says which and why."""


def _ours(**options: Any) -> Callable[[Sequence[Parameter]], Any]:
    return lambda params: fallline.AdamW(params, **HYPERS, **options)


def _torch(**options: Any) -> Callable[[Sequence[Parameter]], Any]:
    return lambda params: torch.optim.AdamW(params, **HYPERS, **options)


def _peer(module: str, name: str, **options: Any) -> Callable[[Sequence[Parameter]], Any]:
    return lambda params: getattr(importlib.import_module(module), name)(params, **HYPERS, **options)


OURS = "fallline"
OURS_INT8 = "fallline int8"
TORCH = "torch fused"
DEEPSPEED = "DeepSpeed CPUAdam"
BITSANDBYTES = "bitsandbytes AdamW8bit"
TORCHAO = "torchao AdamW8bit"

LOW_BIT = {OURS_INT8, BITSANDBYTES, TORCHAO}
"""Those with 8-bit states."""

ADAMW: dict[str, Callable[[Sequence[Parameter]], Any]] = {
    OURS: _ours(),
    OURS_INT8: _ours(state_dtype="int8"),
    TORCH: _torch(fused=True),
    "torch foreach": _torch(foreach=True),
    "torch loop": _torch(foreach=False, fused=False),
    DEEPSPEED: _peer("deepspeed.ops.adam", "DeepSpeedCPUAdam", adamw_mode=True),
    BITSANDBYTES: _peer("bitsandbytes.optim", "AdamW8bit"),
    TORCHAO: _peer("torchao.optim", "AdamW8bit"),
}


def adamw(name: str, params: Sequence[Parameter]) -> Any:
    """That AdamW over these parameters, one step done: some peers compile their kernel there."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):  # they are talkative
            optimizer = ADAMW[name](params)
            optimizer.step()
            return optimizer
    except ImportError as error:
        raise NotInstalled(f"{name}: not installed ({error})") from error
    except Exception as error:
        # A peer that does not work here is a row of the table, not the end of the run.
        if name in (OURS, OURS_INT8) or name.startswith("torch "):
            raise
        print(said.getvalue(), file=sys.stderr)
        raise NotInstalled(f"{name}: does not work here ({type(error).__name__}: {error})") from error


def tensors(shapes: Sequence[tuple[int, ...]], seed: int) -> list[Parameter]:
    """Parameters with gradients of the usual sizes, the same for every arm."""
    generator = torch.Generator().manual_seed(seed)
    params = []
    for shape in shapes:
        param = Parameter(torch.randn(shape, generator=generator).mul_(0.02))
        param.grad = torch.randn(shape, generator=generator).mul_(1e-3)
        params.append(param)
    return params
