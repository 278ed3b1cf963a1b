"""torch's hooks, profiler and tracing around a step.

Some of these names are private to torch: where a version does not have one, the plain way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

GLOBAL_HOOKS = [
    getattr(torch_optimizer, name, {}) for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
]
"""Hooks that somebody has registered on all optimizers."""


def _always() -> bool:
    return True


# Without a way to ask, as if there were one: torch's own wrapper is slower, but right.
profiler_enabled: Callable[[], bool] = getattr(torch._C._autograd, "_profiler_enabled", _always)
with_hooks: Callable[[Callable[..., Any]], Callable[..., Any]] = torch.optim.Optimizer.profile_hook_step


def _nobody() -> None:
    return None


# Not None while torch.compile watches this thread's calls; asking costs less than always switching it off.
frame_callback: Callable[[], Any] = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "get_eval_frame_callback", _nobody
)
