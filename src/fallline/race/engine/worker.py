"""A process that answers requests, one after the other, on one pinned thread.

It reads requests and replies as lines of JSON on stdin and writes events to stdout; whatever a user's workload prints
goes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Generator
from typing import IO

import torch

from fallline.measure.affinity import claimed
from fallline.race.clock.calibration import calibrate, quick_step_time
from fallline.race.engine.messages import (
    CRASHED,
    OUT_OF_MEMORY,
    WAITING,
    Calibrate,
    Check,
    End,
    Event,
    QuickStepTime,
    Reply,
    Request,
    RunTrial,
    TimeSteps,
    Untrained,
    WorkloadRequest,
    decode_reply,
    decode_request,
    encode,
)
from fallline.race.engine.trial import run_trial
from fallline.workloads.errors import WorkloadError
from fallline.workloads.loading import load_changed
from fallline.workloads.workload import Workload


def main() -> None:
    """``worker SLOT PARENT``: which processor to take, and the process that must live."""
    slot, parent = map(int, sys.argv[1:3])
    # The pipes are kept under other numbers: a workload that prints or reads must not meet them.
    events, orders = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    die_with_parent(parent)
    claim = pin(slot)
    desk = Desk()
    with contextlib.suppress(BrokenPipeError):  # nobody is listening any more
        for line in orders:
            _converse(desk.answer(decode_request(line)), orders, events)
    if claim is not None:
        claim.close()


def _converse(answer: Generator[Event, Reply, None], replies: IO[str], events: IO[str]) -> None:
    """Writes every event; reads a reply to those that wait for one."""
    event = next(answer)
    while True:
        events.write(encode(event) + "\n")
        events.flush()
        if not isinstance(event, WAITING):
            return
        line = replies.readline()
        if not line:
            raise BrokenPipeError
        event = answer.send(decode_reply(line))


def pin(slot: int) -> socket.socket | None:
    """One thread, on one processor of its own as long as there are enough, also beside another race.

    The processor is this process's as long as it keeps the socket that is returned.
    """
    torch.set_num_threads(1)
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    own = slot % len(allowed)
    processor, claim = claimed(allowed[own:] + allowed[:own])
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {processor})
    return claim


def die_with_parent(parent: int) -> None:
    """On Linux, a worker whose race was killed must not go on beside the race that takes over."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    # The signal comes for a death from now on; a race that died before has left this process to another one.
    if os.getppid() != parent:
        sys.exit("the race that started this worker has ended")


class Desk:
    """Answers requests, and keeps the workloads it has loaded: their data is made only once."""

    def __init__(self) -> None:
        self._workloads: dict[str, Workload] = {}

    def answer(self, request: Request) -> Generator[Event, Reply, None]:
        """All events of a request; those in ``WAITING`` are sent a reply, any other is the last."""
        try:
            workload = self._workload(request.workload)
            if isinstance(request, RunTrial):
                yield from run_trial(workload, request.task)
            elif isinstance(request, Calibrate):
                arms = [(arm.contestant, arm.point) for arm in request.arms]
                yield calibrate(workload, arms, seconds=request.seconds)
            elif isinstance(request, TimeSteps):
                yield _quick_step_time(workload, request)
            else:
                yield _untrained(workload, request)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # A workload that wants to end the process ends its trial; Ctrl-C itself does not reach workers.
            yield failure(error)

    def _workload(self, request: WorkloadRequest) -> Workload:
        return load_changed(request.spec, request.changes, self._workloads)


def _quick_step_time(workload: Workload, request: TimeSteps) -> QuickStepTime:
    return QuickStepTime(*quick_step_time(workload, request.arm.contestant, request.arm.point))


def _untrained(workload: Workload, request: Check) -> Untrained:
    model = workload.new_model(request.seed)
    start = time.perf_counter()
    value = workload.validate(model)
    return Untrained(value if math.isfinite(value) else None, time.perf_counter() - start)


def failure(error: BaseException) -> End:
    """The end of a trial that raised: without memory, or by an error in somebody's code."""
    known = isinstance(error, WorkloadError)  # which names the function, and has the user's traceback
    text = str(error) if known else f"{type(error).__name__}: {error}"
    memory = isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text.lower()
    own = traceback.format_exc(limit=-4)
    note = text.splitlines()[0] if memory else text if known else f"{text.splitlines()[0]}\n{own}"
    return End(OUT_OF_MEMORY if memory else CRASHED, note=note)
