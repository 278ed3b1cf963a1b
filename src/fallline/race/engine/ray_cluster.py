"""Trials on a Ray cluster: one actor of one processor per slot, running the same generator as a local worker.

A workload's file is looked for under its path on the machine of the actor.  Ray could send its folder, but folders hold
data and results, of any size; so the file has to be there, and whoever forgot is told.

Checkpoints lie beside the results file.  Where the cluster's machines share that folder, a trial whose worker is lost
goes on from its last checkpoint; elsewhere it begins anew, and gives the same curve.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Generator
from typing import Any

import torch

from fallline.race.engine.interface import ONE_THREAD
from fallline.race.engine.messages import (
    End,
    Event,
    Lost,
    Reply,
    Request,
    decode_event,
    decode_reply,
    decode_request,
    encode,
)
from fallline.race.engine.worker import Desk, failure
from fallline.workloads.errors import WorkloadError
from fallline.workloads.loading import file_of

LISTENING_SECONDS = 10.0


class RayUnavailable(RuntimeError):
    """Ray is not installed, or the cluster cannot be reached."""


class Runner:
    """Runs in the actor: ``begin`` and ``advance`` return the next event of a request, as a line of JSON."""

    def __init__(self, slot: int):
        torch.set_num_threads(1)
        self._desk = Desk()
        self._events: Generator[Event, Reply, None] | None = None

    def begin(self, line: str) -> str:
        request = decode_request(line)
        missing = _missing_here(request.workload.spec)
        if missing is not None:
            return encode(missing)
        self._events = self._desk.answer(request)
        return encode(next(self._events))

    def advance(self, line: str) -> str:
        assert self._events is not None
        return encode(self._events.send(decode_reply(line)))


def _missing_here(spec: str) -> End | None:
    """The end of a trial whose workload is a file that this machine does not have."""
    path = file_of(spec)
    if path is None or path.is_file():
        return None
    return failure(
        WorkloadError(
            f"{path}: there is no such file on {socket.gethostname()}; on a Ray cluster every machine needs it under "
            "the same path, for instance in a folder that they share"
        )
    )


class RayEngine:
    """``jobs`` actors; by default as many as the cluster has processors."""

    def __init__(self, jobs: int | None, address: str | None):
        try:
            import ray
        except ImportError:
            raise RayUnavailable("Ray is not installed; pip install 'fallline[ray]'") from None
        self._ray = ray
        if address:
            _check_that_somebody_listens(address)
        try:
            self._started = not ray.is_initialized()
            if self._started:
                options: dict[str, Any] = (
                    {"address": address} if address else {"num_cpus": jobs, "include_dashboard": False}
                )
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:
            where = f"no cluster at {address}" if address else "Ray does not start"
            raise RayUnavailable(f"{where}: {_first_line(error)}") from None
        processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # An actor more than there are processors would wait for one for ever, and its trial with it.
        self.slots = min(jobs or processors, processors)
        self._remote = ray.remote(num_cpus=1, runtime_env={"env_vars": ONE_THREAD})(Runner)
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}

    def _actor(self, slot: int) -> Any:
        if slot not in self._actors:
            self._actors[slot] = self._remote.remote(slot)
        return self._actors[slot]

    def submit(self, slot: int, request: Request) -> None:
        self._pending[self._actor(slot).begin.remote(encode(request))] = slot

    def reply(self, slot: int, reply: Reply) -> None:
        self._pending[self._actor(slot).advance.remote(encode(reply))] = slot

    def wait(self) -> tuple[int, Event]:
        (ready,), _ = self._ray.wait(list(self._pending), num_returns=1)
        slot = self._pending.pop(ready)
        try:
            line: str = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            self._actors.pop(slot, None)
            return slot, Lost(f"the Ray worker was lost: {_first_line(error)}")
        return slot, decode_event(line)

    def renew(self, slot: int) -> None:
        actor = self._actors.pop(slot, None)
        if actor is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors.clear()
        if self._started:
            self._ray.shutdown()


def _check_that_somebody_listens(address: str) -> None:
    """Ray itself tries for minutes."""
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator:
        return  # such as "auto": Ray knows where to look
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LISTENING_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise RayUnavailable(f"no cluster at {address}: {error}; `ray start --head` starts one") from None


def _first_line(error: Exception) -> str:
    """The error's first line; where Ray wraps an error of the worker, that one's."""
    error = getattr(error, "cause", None) or error
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
