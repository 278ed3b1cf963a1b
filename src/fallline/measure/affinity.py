"""Keeps the threads of this process on chosen processors while something is timed, apart from other processes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def pinned(count: int | None) -> Iterator[None]:
    """Keeps all threads of this process on the first processors that it may use, as many as are asked for."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        _pin(set(sorted(before)[:count]))
        yield
    finally:
        _pin(before)


def claimed(processors: Sequence[int]) -> tuple[int, socket.socket | None]:
    """The first of these that no process has claimed, and the claim, which lasts until it is closed or its owner ends.

    If all are claimed, or the system has no claims, the result is the first one and no claim.  Claims are names of
    sockets in Linux's abstract namespace, which leave no files behind and which processes of other users also see.
    """
    for processor in processors:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0fallline-processor-{processor}")
        except (OSError, ValueError):
            claim.close()
        else:
            return processor, claim
    return processors[0], None


def _pin(processors: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), processors)
