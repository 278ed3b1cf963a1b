"""Steps of int8 AdamW over GPT-2-small shapes: the bytes of its states, and the allocations of each step.

python -m benchmarks.workers.allocations [DIVISOR OF THE WIDTH]
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import torch

import fallline
from benchmarks.arms import HYPERS, tensors
from benchmarks.shapes import gpt2_small

STEPS = 10


def main() -> None:
    params = tensors(gpt2_small(int(sys.argv[1]) if len(sys.argv) > 1 else 1), seed=0)
    optimizer = fallline.AdamW(params, **HYPERS, state_dtype="int8")
    for _ in range(3):
        optimizer.step()
    process = ctypes.CDLL(None)
    preloaded = hasattr(process, "count_start")
    count = _with_counter(process) if preloaded else _with_profiler
    result = {
        "parameters": sum(p.numel() for p in params),
        "state_bytes": _state_bytes(optimizer),
        "method": "malloc and mmap, counted" if preloaded else "torch's allocator only, by its profiler",
        "steps": [count(optimizer.step) for _ in range(STEPS)],
    }
    print(json.dumps(result))


def _state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Every storage once: counters are views of one."""
    tensors = [t for entry in optimizer.state.values() for t in entry.values() if isinstance(t, torch.Tensor)]
    return sum({s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in tensors)}.values())


def _with_counter(process: ctypes.CDLL) -> Callable[[Callable[[], Any]], dict[str, int]]:
    out = (ctypes.c_long * 3)()

    def count(step: Callable[[], Any]) -> dict[str, int]:
        process.count_start()
        step()
        process.count_stop(out)
        return {"count": out[0], "bytes": out[1], "largest": out[2]}

    return count


def _with_profiler(step: Callable[[], Any]) -> dict[str, int]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    sizes = [
        event.cpu_memory_usage for event in profiler.events() if event.name == "[memory]" and event.cpu_memory_usage > 0
    ]
    return {"count": len(sizes), "bytes": sum(sizes), "largest": max(sizes, default=0)}


main()
