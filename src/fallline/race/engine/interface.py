"""The interface of an engine: slots that take requests and give events."""

from __future__ import annotations

from typing import Protocol

from fallline.race.engine.messages import Event, Reply, Request

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
"""The environment of whatever runs trials."""


class Engine(Protocol):
    """Runs requests in slots.  Every event but a last one waits for a reply."""

    slots: int

    def submit(self, slot: int, request: Request) -> None: ...

    def reply(self, slot: int, reply: Reply) -> None: ...

    def wait(self) -> tuple[int, Event]:
        """The next event and its slot."""

    def renew(self, slot: int) -> None:
        """The next request of an idle slot meets a new process."""

    def close(self) -> None: ...
