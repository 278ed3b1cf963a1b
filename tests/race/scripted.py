"""An engine that trains nothing: a trial reaches its target when its script says so, and slots answer in any order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fallline.race.contestants import Contestant
from fallline.race.engine.messages import (
    CENSORED,
    CRASHED,
    OVER_BUDGET,
    REACHED,
    Assignment,
    Check,
    End,
    Evaluation,
    Event,
    Reply,
    Request,
    RunTrial,
    Untrained,
)

Script = Callable[[str, int], float]
"""Steps to target of a contestant with this seed; ∞ for a miss, NaN for a crash."""


def log_normal(gaps: Mapping[str, float], sigma: float = 0.08, typical: float = 400.0) -> Script:
    """Times of contestants that are so far behind, as logarithms; luck is of the contestant and the seed alone."""

    def steps(contestant: str, seed: int) -> float:
        own = random.Random(f"{contestant} {seed}").gauss(0.0, sigma)
        return typical * math.exp(gaps[contestant] + own)

    return steps


def contestants(names: Mapping[str, Any]) -> list[Contestant]:
    return [Contestant(name, "sgd", {"lr": 0.1}, schedule="constant") for name in names]


class Killed(Exception):
    """The race was killed."""


class ScriptedEngine:
    def __init__(
        self, script: Script, *, slots: int = 1, order: int = 0, dies_after: int | None = None, every: int = 10
    ):
        self.slots, self._script, self._every = slots, script, every
        self._order = random.Random(order)
        self._events: dict[int, Iterator[Event]] = {}
        self._stopped: set[int] = set()
        self._left = dies_after
        self.submitted: list[tuple[str, int]] = []
        """Contestant and seed of every trial, in the order in which they began."""

    def submit(self, slot: int, request: Request) -> None:
        assert slot not in self._events, "a slot runs one request"
        if isinstance(request, Check):
            self._events[slot] = iter([Untrained(9.0, 0.0)])
            return
        assert isinstance(request, RunTrial)
        self.submitted.append((request.task.contestant.name, request.task.seed))
        self._stopped.discard(slot)
        self._events[slot] = self._trial(slot, request.task)

    def _trial(self, slot: int, task: Assignment) -> Iterator[Event]:
        steps = self._script(task.contestant.name, task.seed)
        if math.isnan(steps):
            yield End(CRASHED, note="ValueError: scripted")
            return
        for step in range(self._every, task.max_steps + 1, self._every):
            reached = step >= steps
            yield Evaluation(step, 0.0 if reached else 9.0, 1.0, training=float(step))
            if reached or slot in self._stopped:
                yield End(REACHED if reached else CENSORED, step, training=float(step), evaluation=0.0)
                return
        yield End(OVER_BUDGET, task.max_steps, training=float(task.max_steps), evaluation=0.0)

    def wait(self) -> tuple[int, Event]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed
        slot = self._order.choice(sorted(self._events))
        event = next(self._events[slot])
        if not isinstance(event, Evaluation):
            del self._events[slot]
        return slot, event

    def reply(self, slot: int, reply: Reply) -> None:
        if not reply.go_on:
            self._stopped.add(slot)

    def close(self) -> None: ...
