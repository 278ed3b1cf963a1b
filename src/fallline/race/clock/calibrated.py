"""The cost of a contestant's steps on one workload, as it was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fallline.race.clock.sessions import Session


@dataclasses.dataclass(frozen=True)
class Calibrated:
    """The cost of a step on one thread, measured apart from the trials."""

    step_seconds: float
    low: float
    high: float
    switch_seconds: float
    """To averaged weights and back, once per evaluation."""
    state_bytes: int
    parameter_bytes: int
    peak_bytes: int | None

    @property
    def share(self) -> float:
        """Half of the interval, over the time itself."""
        return (self.high - self.low) / 2 / self.step_seconds

    def scaled(self, factor: float) -> Calibrated:
        """Every time in it multiplied."""
        times = ("step_seconds", "low", "high", "switch_seconds")
        return dataclasses.replace(self, **{name: factor * getattr(self, name) for name in times})


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Contestants whose steps were measured side by side."""

    found: Mapping[str, Calibrated]
    session: Session
    """All samples, round by round."""
    stopped: str
    """Why the measuring ended."""
