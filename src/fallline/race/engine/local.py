"""Local processes, each with one pinned thread: they run trials unless a cluster does."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys

from fallline.race.engine.interface import ONE_THREAD
from fallline.race.engine.messages import Event, Lost, Reply, Request, decode_event, encode

START_WORKER = (
    "import sys; sys.path[:] = sys.argv[3:]; del sys.argv[3:]; from fallline.race.engine.worker import main; main()"
)
"""With ``-m`` or ``-c`` Python looks for modules in the current folder first, where a user's ``random.py`` would be
taken for its own.  A worker looks where the race does, as it is told after its slot
and its parent."""
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
"""The same for processes that a workload spawns with ``multiprocessing``, which hands this flag on."""


class Worker:
    def __init__(self, slot: int):
        self.process = subprocess.Popen(
            [sys.executable, *SAFE_PATH, "-c", START_WORKER, str(slot), str(os.getpid()), *_folders_of_modules()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            text=True,
            encoding="utf-8",
            # Ctrl-C is for the race, which then ends its workers.
            start_new_session=True,
        )

    def send(self, message: Request | Reply) -> None:
        assert self.process.stdin is not None
        # The end of a worker is noticed where events are read.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(encode(message) + "\n")
            self.process.stdin.flush()

    def receive(self) -> Event:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            return decode_event(line)
        code = self.process.wait()
        return Lost(f"the worker {_how_it_ended(code)}")

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.process.kill()
        self.process.wait()


def _folders_of_modules() -> list[str]:
    """The folders in which this process looks for modules; an empty name is the current folder."""
    return [folder or os.getcwd() for folder in sys.path]


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    memory = "; the system does that when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by signal {-code}{memory}"


class LocalEngine:
    """``jobs`` workers, started when first needed and anew when lost."""

    def __init__(self, jobs: int):
        self.slots = jobs
        self._workers: dict[int, Worker] = {}
        self._selector = selectors.DefaultSelector()

    def submit(self, slot: int, request: Request) -> None:
        if slot not in self._workers:
            worker = self._workers[slot] = Worker(slot)
            assert worker.process.stdout is not None
            self._selector.register(worker.process.stdout, selectors.EVENT_READ, slot)
        self._workers[slot].send(request)

    def reply(self, slot: int, reply: Reply) -> None:
        self._workers[slot].send(reply)

    def wait(self) -> tuple[int, Event]:
        (key, _), *_ = self._selector.select()
        slot = key.data
        event = self._workers[slot].receive()
        if isinstance(event, Lost):
            self._drop(slot)
        return slot, event

    def _drop(self, slot: int) -> None:
        worker = self._workers.pop(slot)
        if worker.process.stdout is not None:
            self._selector.unregister(worker.process.stdout)
        worker.close()

    def renew(self, slot: int) -> None:
        if slot in self._workers:
            self._drop(slot)

    def close(self) -> None:
        for slot in list(self._workers):
            self._drop(slot)
        self._selector.close()
