"""A look at a race as it is stored: what was compared, on which clock, and what the rule found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.race.results import Results
from fallline.score.decision import Look

TIME, METRIC, SCORE = "time", "metric", "score"
"""The measures by which contestants are compared: time to target, the metric at equal time, or the score over several
workloads."""


@dataclasses.dataclass(frozen=True)
class RaceLook:
    """One look; gaps and bounds are logarithms of ratios unless ``look.relative`` is false."""

    quantity: str
    clock: str
    """``seconds`` or ``steps``: by which times were compared."""
    look: Look
    other_clock: str | None
    other: Look | None
    """The same choice by the other clock: its bound there.  Who is out is decided by ``look`` alone."""
    clock_error: float | None
    """The largest relative standard error of a ratio of two step times; None without a clock of seconds."""
    seconds_used: float
    """By the race up to this look, all its runs together."""

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RaceLook:
        other = None if data["other"] is None else Look.from_data(data["other"])
        return cls(**{**data, "look": Look.from_data(data["look"]), "other": other})


def looks_of(results: Results) -> list[RaceLook]:
    """All that a race has taken, from the first one."""
    with results.readable("a look of it is incomplete"):
        return [RaceLook.from_data(data) for data in results.looks()]
