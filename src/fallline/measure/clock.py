"""A monotonic clock that is synchronised before and after, and excludes everything that is not part of the call."""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Callable
from typing import Any

Arm = Callable[[], Any]
Wait = Callable[[], Any]

MOST_CALLS = 10_000


def nothing_to_wait_for() -> None:
    """Does nothing, because on a CPU an operation has ended when its call returns."""


def wait_for(device: str) -> Wait:
    """A function that waits until all work on the device has ended, which the next measurement would include."""
    if device == "cpu":
        return nothing_to_wait_for
    import torch

    return functools.partial(torch.accelerator.synchronize, torch.device(device))


def seconds_of(arm: Arm, calls: int = 1, wait: Wait = nothing_to_wait_for) -> float:
    """The mean time of a number of calls in a row."""
    return both_times_of(arm, calls, wait)[0]


def both_times_of(arm: Arm, calls: int = 1, wait: Wait = nothing_to_wait_for) -> tuple[float, float]:
    """Seconds by the wall, and of CPU time of this thread; ``thread_time`` says when the second is of any use."""
    wait()
    # Read outside the wall's: the system call of the thread's clock is then in no wall time.
    cpu, start = time.thread_time(), time.perf_counter()
    for _ in range(calls):
        arm()
    wait()
    wall = time.perf_counter() - start
    return wall / calls, (time.thread_time() - cpu) / calls


def calls_for(seconds: float, wanted: float) -> int:
    """The number of calls of this length that make a sample of at least the wanted length."""
    # The rounding of the clock must not lead to one more call.
    return max(1, min(MOST_CALLS, math.ceil(wanted / max(1e-9, seconds) * (1 - 1e-9))))


class no_garbage_collection:
    """Suspends garbage collection, as timeit does, because a collection within a sample belongs to no arm."""

    def __enter__(self) -> None:
        gc.collect()
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_on:
            gc.enable()


def flush_bytes(cache_bytes: int) -> int:
    """The bytes to go through: twice the size of the last-level cache."""
    return 2 * cache_bytes


class CacheFlush:
    """Empties the caches of everything else by going through more memory than they hold."""

    def __init__(self, cache_bytes: int):
        import torch

        self.bytes = flush_bytes(cache_bytes)
        self._memory = torch.ones(self.bytes // 4, dtype=torch.float32)

    def __call__(self) -> None:
        self._memory.mul_(1.0)
