"""The queue that a race takes its trials from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from fallline.race.results import Row


class TrialQueue(Protocol):
    def start(self) -> None:
        """Called once, when everything before the trials is done."""

    def next(self) -> Row | None:
        """The next trial to run; None if there is none now."""

    def put_back(self, row: Row) -> None:
        """A trial whose worker was lost."""

    def ended(self, row: Row) -> None: ...

    def expired(self) -> bool:
        """Whether the race is over although trials run."""


class FixedQueue:
    """All trials of a fixed design, in their order."""

    def __init__(self, rows: Iterable[Row], expired: Callable[[], bool] = lambda: False):
        self._waiting, self.expired = deque(rows), expired

    def start(self) -> None: ...

    def next(self) -> Row | None:
        return self._waiting.popleft() if self._waiting and not self.expired() else None

    def put_back(self, row: Row) -> None:
        self._waiting.appendleft(row)

    def ended(self, row: Row) -> None: ...
