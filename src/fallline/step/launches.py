"""Counts the kernels that a step launches: operations of torch that touch elements, and native launches."""

from __future__ import annotations

import os
from typing import Any

# Operations that only describe memory, or read one number.
_NO_KERNEL = frozenset(
    "aten::" + name
    for name in (
        "as_strided", "detach", "detach_", "empty", "empty_like", "empty_strided", "expand", "item", "lift_fresh",
        "_local_scalar_dense", "permute", "reshape", "resize_", "result_type", "select", "slice", "squeeze", "t", "to",
        "transpose", "unbind", "unsqueeze", "view", "view_as", "view_as_real", "_to_copy", "is_nonzero",
    )
)  # fmt: skip


def count_launches(optimizer: Any) -> int:
    """Takes one step and counts its launches."""
    # Otherwise the profiler reports its start and end on stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        optimizer.step()
    return sum(_starts(event) for event in profiled.events()) + getattr(optimizer, "launches", 0)


def _starts(event: Any) -> bool:
    """Whether it is an operation that contains no other launch, or a compiled function as a whole."""
    if event.name.startswith("Torch-Compiled Region"):
        return True
    if not event.name.startswith("aten::") or event.name in _NO_KERNEL or _inside_compiled(event):
        return False
    return not any(child.name.startswith("aten::") and child.name not in _NO_KERNEL for child in event.cpu_children)


def _inside_compiled(event: Any) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith("Torch-Compiled Region"):
            return True
        parent = parent.cpu_parent
    return False
