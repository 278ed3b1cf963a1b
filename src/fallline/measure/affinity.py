"""Keeps the threads of this process on chosen processors while something is timed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def pinned(count: int | None) -> Iterator[None]:
    """All threads of this process on the first so many processors it may use."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        _pin(set(sorted(before)[:count]))
        yield
    finally:
        _pin(before)


def _pin(processors: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), processors)
