"""The share of the machine that a measurement got, and whether other work took too much for its numbers to count.

The kernel accounts for every processor, which shows exactly how much other processes took, and the thread's own clock
shows how long it waited.  The load average is used only where there is no such account, because for a minute it still
includes the work of this process.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fallline.measure.machine import load_average

STAT = Path("/proc/stat")
LONG_ENOUGH = 0.2
"""The shortest stretch that is judged, in seconds; the kernel counts in hundredths, and a short stumble is no load."""
LEAST_FREE = 0.75
"""The part of the processors it uses that a measurement must find free."""
LEAST_RUNNING = 0.7
"""The part of the time that the measuring thread must have run."""
SLOW = 0.5
"""The part of the highest known speed of the memory below which other work must be using it."""


@dataclasses.dataclass(frozen=True)
class Share:
    """How a stretch of time was spent, in seconds."""

    wall: float
    thread: float
    """The time that the measuring thread ran on a processor."""
    others: float | None
    """The time of all other processes on the processors that this one may use; None if the system does not say."""
    stolen: float | None
    """The time in which the virtual machine had work, and its host ran something else."""
    cores: int
    threads: int
    """The number of threads that the measurement runs on."""
    load: float | None = None
    """The load average before the measurement."""


class Meter:
    """Reads the clocks when it is made, and again when it is asked for the share."""

    def __init__(self) -> None:
        self._load = load_average()
        self._before = _reading()

    def share(self, threads: int) -> Share:
        now, before = _reading(), self._before
        others = stolen = None
        if now.processors is not None and before.processors is not None:
            busy, stolen = (b - a for a, b in zip(before.processors, now.processors, strict=True))
            others = max(0.0, busy - (now.process - before.process))
        wall, thread = now.wall - before.wall, now.thread - before.thread
        return Share(wall, thread, others, stolen, len(_processors()), threads, self._load)


def reason(share: Share, speed: float | None = None, best: float | None = None) -> str | None:
    """Why a measurement under these circumstances does not show the speed of this machine; None if it does.

    ``speed`` is the speed of the memory meanwhile, and ``best`` the highest known on this machine over as much memory.

    >>> quiet = Share(wall=1.0, thread=0.99, others=0.1, stolen=0.0, cores=2, threads=2)
    >>> reason(quiet), reason(quiet, speed=0.14, best=23.0)
    (None, 'the memory moved 0.14 GB/s for the probe, and 23 before')
    >>> reason(dataclasses.replace(quiet, others=1.2))
    'other work took 1.2 of 2 processors meanwhile'
    >>> reason(dataclasses.replace(quiet, thread=0.4))
    'the thread that measures waited for a processor or for other threads 60 % of the time'
    """
    if share.wall >= LONG_ENOUGH:
        wanted = min(share.threads, share.cores)
        taken = ((share.others or 0.0) + (share.stolen or 0.0)) / share.wall
        if share.cores - taken < LEAST_FREE * wanted:
            return f"other work took {taken:.1f} of {share.cores} processors meanwhile"
        if share.others is None and share.load is not None and share.load > share.cores:
            return f"the load average was {share.load:.1f} on {share.cores} processors before"
        # More threads than processors wait for each other, with or without other work.
        if share.threads <= share.cores and share.thread < LEAST_RUNNING * share.wall:
            waited = 100 * (1 - share.thread / share.wall)
            return f"the thread that measures waited for a processor or for other threads {waited:.0f} % of the time"
    if speed is not None and best is not None and speed < SLOW * best:
        return f"the memory moved {speed:.2g} GB/s for the probe, and {best:.3g} before"
    return None


class _Reading(NamedTuple):
    wall: float
    thread: float
    process: float
    """The processor time of this process and its children."""
    processors: tuple[float, float] | None
    """Seconds in which the processors ran anything, and seconds that the host took from them."""


def _reading() -> _Reading:
    return _Reading(time.perf_counter(), time.thread_time(), sum(os.times()[:4]), _busy_and_stolen())


def _busy_and_stolen() -> tuple[float, float] | None:
    try:
        lines = STAT.read_text().splitlines()
    except OSError:
        return None
    return busy_and_stolen(lines, _processors())


def busy_and_stolen(lines: Iterable[str], processors: Iterable[int]) -> tuple[float, float] | None:
    """Both from the lines of ``/proc/stat``; None if a processor is not among them.

    >>> busy_and_stolen(["cpu 9 9 9 9", "cpu0 100 20 30 900 40 5 5 50 0 0", "cpu1 1 0 0 5 0 0 0 0"], [0])
    (1.6, 0.5)
    """
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    ticks = os.sysconf("SC_CLK_TCK")
    busy = stolen = 0
    for processor in processors:
        counts = rows.get(f"cpu{processor}")
        if counts is None or len(counts) < 8:
            return None
        user, nice, system, _, _, interrupts, soft_interrupts, steal = map(int, counts[:8])
        busy += user + nice + system + interrupts + soft_interrupts
        stolen += steal
    return busy / ticks, stolen / ticks


def _processors() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
