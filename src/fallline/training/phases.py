"""Seconds of the phases of a training, apart.

A clock is read where one phase ends and the next begins, after the device has done its work, so that every second is
counted where it was asked for.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from fallline.measure.clock import Wait, nothing_to_wait_for

DATA, FORWARD, BACKWARD, STEP = "data", "forward", "backward", "step"
STEP_PHASES = (DATA, FORWARD, BACKWARD, STEP)
"""The phases of one step, in their order."""
TRAINING = "training"
"""All phases of a step together: read once per stretch of steps, or where a user's own function trains."""
CURVATURE = "curvature"
"""The work of an optimizer beside its step: another forward and backward pass, every few steps."""
EVALUATION = "evaluation"


class PhaseClock:
    """Adds up seconds by phase; they only grow until they are taken.

    >>> ticks = iter([0.0, 1.0, 3.0])
    >>> clock = PhaseClock(now=lambda: next(ticks))
    >>> clock.start(); clock.lap(FORWARD); clock.lap(BACKWARD)
    >>> clock.take(), dict(clock.seconds)
    ({'forward': 1.0, 'backward': 2.0}, {})
    """

    def __init__(self, wait: Wait = nothing_to_wait_for, now: Callable[[], float] | None = None):
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._wait = wait
        self._now = now
        self._since = 0.0

    def start(self) -> None:
        """Forgets what came since the last reading: other arms, or nothing that is trained."""
        self._since = self._read()

    def lap(self, phase: str) -> None:
        """Counts everything since the last reading as this phase."""
        before, self._since = self._since, self._read()
        self.seconds[phase] += self._since - before

    def take(self) -> dict[str, float]:
        """The seconds since they were last taken, for instance those of one step."""
        taken = dict(self.seconds)
        self.seconds.clear()
        return taken

    def _read(self) -> float:
        self._wait()
        return time.perf_counter() if self._now is None else self._now()


class TwoClocks(PhaseClock):
    """Adds up CPU seconds of the whole process beside those of the wall, for whoever measures on a busy machine."""

    def __init__(self, wait: Wait = nothing_to_wait_for):
        super().__init__(wait)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self._cpu_since = 0.0

    def start(self) -> None:
        # The system call comes first: whatever takes the processor away there belongs to the phase that ends.
        self._cpu_since = time.process_time()
        super().start()

    def lap(self, phase: str) -> None:
        before, self._cpu_since = self._cpu_since, time.process_time()
        self.cpu[phase] += self._cpu_since - before
        super().lap(phase)

    def take_cpu(self) -> dict[str, float]:
        taken = dict(self.cpu)
        self.cpu.clear()
        return taken


class NoClock(PhaseClock):
    """For whoever does not ask: neither reads a clock nor waits for a device."""

    def start(self) -> None: ...

    def lap(self, phase: str) -> None: ...
