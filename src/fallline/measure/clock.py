"""The clock: monotonic, synchronised before and after, with nothing inside that does not belong there."""

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
    """On a CPU an operation has ended when its call returns."""


def wait_for(device: str) -> Wait:
    """What ends when all work on that device has ended: without it a GPU's time lands on whoever asks next."""
    if device == "cpu":
        return nothing_to_wait_for
    import torch

    return functools.partial(torch.accelerator.synchronize, torch.device(device))


def seconds_of(arm: Arm, calls: int = 1, wait: Wait = nothing_to_wait_for) -> float:
    """The mean of so many calls in a row."""
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
    """How many calls of a length make a sample of at least the wanted length."""
    # A clock's rounding is no reason for one more call.
    return max(1, min(MOST_CALLS, math.ceil(wanted / max(1e-9, seconds) * (1 - 1e-9))))


class no_garbage_collection:
    """As in timeit: a collection in the middle of a sample belongs to no arm."""

    def __enter__(self) -> None:
        gc.collect()
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_on:
            gc.enable()


def flush_bytes(cache_bytes: int) -> int:
    """Twice as much as the last level holds."""
    return 2 * cache_bytes


class CacheFlush:
    """Pushes everything else out of the caches, by going through more memory than they hold."""

    def __init__(self, cache_bytes: int):
        import torch

        self.bytes = flush_bytes(cache_bytes)
        self._memory = torch.ones(self.bytes // 4, dtype=torch.float32)

    def __call__(self) -> None:
        self._memory.mul_(1.0)
