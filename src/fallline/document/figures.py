"""Figures as data; ``picture`` draws them, and a terminal shows the kinds it can."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Mapping[float, str] | None = None
    """Where there are ticks, and what they say; None leaves that to the renderer."""
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """A line; ``low`` and ``high`` bound its band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    ends: bool = False
    """Whether its last point is an end worth a dot: there is no more of it because it has arrived."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """A height that lines are held against."""

    y: float
    text: str


@dataclasses.dataclass(frozen=True)
class Chart:
    """Lines over a common axis, or step functions that jump at their points."""

    name: str
    """The name of its file."""
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    steps: bool = False
    caption: str = ""
    """A line below the title: how its lines and bands were made."""
    marks: Sequence[Mark] = ()
    detail: bool = True


@dataclasses.dataclass(frozen=True)
class Tile:
    """A cell of a map: who wins it, by how much, and in words."""

    text: str
    winner: str | None = None
    lead: float = 1.0
    """How many times longer the next one takes: the larger, the stronger the colour."""
    tied: bool = False
    set_aside: bool = False
    caption: str = ""
    """A second line, where there is room."""


@dataclasses.dataclass(frozen=True)
class HeatMap:
    """A map of winners: a tile for some pairs of a column and a row."""

    name: str
    title: str
    x_label: str
    y_label: str
    columns: Sequence[str]
    rows: Sequence[str]
    tiles: Mapping[tuple[str, str], Tile]
    """By column and row."""
    contestants: Sequence[str]
    """Their order gives each its colour."""
    caption: str = ""
    """The title of the picture, where it is another one."""
    headings: Sequence[str] = ()
    """Titles of the columns where the map is shown as a table; the columns themselves by default."""
    detail: bool = True


Figure = Chart | HeatMap
