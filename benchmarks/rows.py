"""A line of the report: what was compared with what, the number, its bar, and whether it was reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.measure.stats import Estimate

NO_BAR = "no bar"


@dataclasses.dataclass(frozen=True)
class Row:
    case: str
    what: str
    against: str
    bar: float | None
    """None for a number that is shown for what it says, without a bar."""
    unit: str = "×"
    value: Estimate | None = None
    at_least: bool = True
    """Whether the bar is a least (a speed) or a most (bytes, seconds)."""
    strict: bool = True
    """Otherwise a value whose interval includes the bar passes: "not slower", which a tie is."""
    ours: str = ""
    theirs: str = ""
    note: str = ""
    """Why there is no value, or what to know about it."""

    @property
    def reached(self) -> bool | None:
        if self.value is None or self.bar is None:
            return None
        if not self.strict:
            edge = self.value.high if self.at_least else self.value.low
            return edge >= self.bar if self.at_least else edge <= self.bar
        return self.value.value >= self.bar if self.at_least else self.value.value <= self.bar

    @property
    def verdict(self) -> str:
        if self.value is None:
            return self.note or "not measured"
        if self.bar is None:
            return NO_BAR
        text = "reached" if self.reached else "**not reached**"
        if self.strict and self.value.low < self.bar < self.value.high:
            text += ", the interval includes the bar"
        return text

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return "–"
        if not self.strict:
            return f"not {'below' if self.at_least else 'above'} {self.bar:g}{self.unit}"
        return f"{'≥' if self.at_least else '≤'} {self.bar:g}{self.unit}"


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a case: its rows, and the raw samples they were computed from."""

    rows: list[Row]
    raw: Mapping[str, Any]


FAILED = "failed"


def failed(case: str, error: Exception) -> Row:
    """The row of a case that could not be measured."""
    first = str(error).splitlines()[0] if str(error) else ""
    return Row(case, case, "–", 0.0, note=f"{FAILED}: {type(error).__name__}: {first}")


def milliseconds(seconds: Estimate) -> str:
    """``0.0251 ms``."""
    scaled = Estimate(seconds.value * 1e3, seconds.low * 1e3, seconds.high * 1e3, seconds.count)
    return scaled.short(" ms")
