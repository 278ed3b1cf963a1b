"""CPU time of one thread beside the wall clock: the cost of its work without the time it waited for a processor.

It is the cost of the work only where the work is done in this thread alone and the thread waits for nothing but a
processor.  Threads of a library, processes that load data and accelerators work while this thread is off its
processor, so that its CPU time is too short.  That can be seen at any load: other threads spend CPU time of the
process, processes that it started are its children, and a thread that waits for somebody gives up its processor by
itself, while one that makes room for other programs is taken off it.  (Children are looked for as well as waits: on a
busy machine a thread may be off its processor until the answer is there, and then it never waits for it.)
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OTHER_THREADS = 0.01
"""Other threads may spend this share of what the thread itself does: an interpreter's housekeeping is less."""
WAITS_PER_CALL = 0.05
"""A call may give up its processor so often.  A step that waits for a batch does it about once; one that computes
never, but for a page that is read from a disk."""
UNKNOWN = "this system does not say how often a thread waits"


@dataclasses.dataclass(frozen=True)
class Usage:
    """The counters of a thread, from its start on."""

    cpu: float
    """Seconds."""
    others: float
    """Seconds that all other threads of the process spent."""
    waits: int
    """How often it gave up its processor by itself."""
    has_children: bool = False
    """Whether processes are running that this one started."""


def usage() -> Usage | None:
    """None where the system does not count what is needed."""
    if resource is None or not hasattr(resource, "RUSAGE_THREAD"):
        return None
    cpu = time.thread_time()
    others, waits = time.process_time() - cpu, resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    return Usage(cpu, others, waits, _has_children())


def _has_children() -> bool:
    """False where the system does not list them."""
    try:
        return any(path.read_text().strip() for path in Path("/proc/self/task").glob("*/children"))
    except OSError:  # a thread has ended meanwhile
        return False


def obstacle(before: Usage | None, after: Usage | None, calls: int) -> str | None:
    """Why the CPU time of so many calls in between is not their cost; None if it is.

    >>> obstacle(Usage(0.0, 0.0, 0), Usage(2.0, 0.001, 3), calls=100) is None
    True
    >>> obstacle(Usage(0.0, 0.0, 0), Usage(2.0, 1.5, 3), calls=100)
    'other threads do a part of the work'
    >>> obstacle(Usage(0.0, 0.0, 0), Usage(0.5, 0.0, 100), calls=100)
    'a call waits for something else than a processor'
    """
    if before is None or after is None:
        return UNKNOWN
    if before.has_children or after.has_children:
        return "processes that this one started may do a part of the work"
    if after.others - before.others > OTHER_THREADS * (after.cpu - before.cpu):
        return "other threads do a part of the work"
    if after.waits - before.waits > WAITS_PER_CALL * calls:
        return "a call waits for something else than a processor"
    return None
