"""A process that runs trials, one after the other, on one pinned thread.

It reads requests and replies as lines of JSON on stdin and writes what happens to stdout; whatever a user's workload
prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import IO, Any

from fallline.measure.affinity import claimed
from fallline.race.contestants import Contestant


def main() -> None:
    slot = int(sys.argv[1])
    # The pipes are kept under other numbers: a workload that prints or reads must not meet them.
    events, orders = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _die_with_parent()
    claim = pin(slot)
    for line in orders:
        try:
            for event in answer(json.loads(line), orders):
                events.write(json.dumps(event) + "\n")
                events.flush()
        except BrokenPipeError:
            break  # nobody is listening any more
    if claim is not None:
        claim.close()


def pin(slot: int) -> socket.socket | None:
    """One thread, on one processor of its own as long as there are enough, also beside another race.

    The processor is this process's as long as it keeps what is returned.
    """
    import torch

    torch.set_num_threads(1)
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    own = slot % len(allowed)
    processor, claim = claimed(allowed[own:] + allowed[:own])
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {processor})
    return claim


def _die_with_parent() -> None:
    """On Linux, a worker whose race was killed must not go on beside the race that takes over."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def answer(request: Mapping[str, Any], replies: IO[str]) -> Iterator[dict[str, Any]]:
    """All events of a request; the last one's name is ``end`` or ``result``."""
    try:
        workload = workload_of(request["workload"])
        if request["do"] == "trial":
            yield from _trial(workload, request, replies)
        elif request["do"] == "calibrate":
            from fallline.race.calibration import calibrate

            yield {"event": "result", **calibrate(workload, request["arms"], seconds=request["seconds"])}
        elif request["do"] == "glance":
            from fallline.race.calibration import glance

            yield {"event": "result", **glance(workload, request["arm"])}
        else:
            model = workload.new_model(request["seed"])
            start = time.perf_counter()
            value = workload.validate(model)
            seconds = time.perf_counter() - start
            yield {"event": "result", "value": value if math.isfinite(value) else None, "seconds": seconds}
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # A workload that wants to end the process ends its trial; Ctrl-C itself does not reach workers.
        yield failure(error)


def _trial(workload: Any, request: Mapping[str, Any], replies: IO[str]) -> Iterator[dict[str, Any]]:
    from fallline.race.training import Assignment, train

    data = request["task"]
    task = Assignment(**{**data, "contestant": Contestant(**data["contestant"])})
    events = train(workload, task)
    event = next(events)
    while True:
        yield event
        if event["event"] == "end":
            return
        line = replies.readline()
        if not line:
            raise BrokenPipeError
        event = events.send(json.loads(line))


def failure(error: BaseException) -> dict[str, Any]:
    """How a trial ended that raised: without memory, or by an error in somebody's code."""
    from fallline.race.training import CRASHED, OUT_OF_MEMORY
    from fallline.workloads import WorkloadError

    known = isinstance(error, WorkloadError)  # which names the function, and has the user's traceback
    text = str(error) if known else f"{type(error).__name__}: {error}"
    memory = isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text.lower()
    own = traceback.format_exc(limit=-4)
    note = text.splitlines()[0] if memory else text if known else f"{text.splitlines()[0]}\n{own}"
    return {"event": "end", "status": OUT_OF_MEMORY if memory else CRASHED, "note": note}


_WORKLOADS: dict[str, Any] = {}


def workload_of(request: Mapping[str, Any]) -> Any:
    """Loaded once per process: its data is made only once."""
    from fallline.workloads import load

    spec, changes = request["spec"], request["changes"]
    if spec not in _WORKLOADS:
        _WORKLOADS[spec] = load(spec)
    return _WORKLOADS[spec].replace(**changes) if changes else _WORKLOADS[spec]
