"""Figures as data; ``picture`` draws them, and a terminal shows the kinds that it can."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fallline.document.numbers import Digits, in_unit


@dataclasses.dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Mapping[float, str] | None = None
    """The positions and labels of ticks; None leaves them to the renderer."""
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """A line; ``low`` and ``high`` bound its band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    extends: bool = False
    """Whether it goes on from the series before it, in the same colour and dashed: not measured, but expected."""
    ends: bool = False
    """Whether its last point is an end worth a dot: there is no more of it because it has arrived."""
    scattered: bool = False
    """Whether its points are measurements in no order, drawn as dots with their intervals and without a line."""
    words: Sequence[str] | None = None
    """The words beside its points, which then have dots; an empty text leaves a point without words."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """A height that lines are held against."""

    y: float
    text: str


@dataclasses.dataclass(frozen=True)
class Drawn:
    """The fields of every kind of figure."""

    name: str
    """The name of its file."""
    title: str
    caption: str = dataclasses.field(default="", kw_only=True)
    """A line below the title: how it was made, or the title of the picture if it differs."""
    detail: bool = dataclasses.field(default=True, kw_only=True)
    """Whether ``--quiet`` leaves it out."""


@dataclasses.dataclass(frozen=True)
class Chart(Drawn):
    """Lines over a common axis, or step functions that jump at their points."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    steps: bool = False
    marks: Sequence[Mark] = ()
    direct: bool = False
    """Whether lines carry their names at their ends, where a legend would be a detour."""
    place: str = ""
    """Figures that follow each other and have the same place show the same from several sides; a page shows one of
    them at a time."""
    view: str = ""
    """The side that this one shows, in a word or two."""


@dataclasses.dataclass(frozen=True)
class Panels(Drawn):
    """Several charts beside each other; if all have the same lines, they share one legend."""

    charts: Sequence[Chart]
    columns: int


@dataclasses.dataclass(frozen=True)
class Landscape(Drawn):
    """A function of two variables by its contours, and paths on it; paths carry their names."""

    x: Axis
    y: Axis
    columns: Sequence[float]
    rows: Sequence[float]
    """The grid: the values of x, and those of y."""
    heights: Sequence[Sequence[float]]
    """Row by row, the values of the function on the grid."""
    levels: Sequence[float]
    paths: Sequence[Series]
    optimum: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Strip(Drawn):
    """Small pictures in rows, with a name above each column."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Sequence[Sequence[int]]]]
    """Rows of pictures; a picture is rows of grey values from 0 to 255."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its interval."""

    name: str
    value: float
    low: float
    high: float
    strong: bool = False
    """Whether it answers the question, and the others lead to it."""


@dataclasses.dataclass(frozen=True)
class Intervals(Drawn):
    """Estimates below each other, against a value at which there is nothing to find."""

    x: Axis
    rows: Sequence[Interval]
    reference: float
    reference_text: str


@dataclasses.dataclass(frozen=True)
class Tile:
    """A cell of a map: its winner, the lead, and the text."""

    text: str
    winner: str | None = None
    lead: float = 1.0
    """The ratio of the next time to the winner's; the larger it is, the stronger the colour."""
    tied: bool = False
    set_aside: bool = False
    caption: str = ""
    """A second line, shown if there is room."""


@dataclasses.dataclass(frozen=True)
class HeatMap(Drawn):
    """A map of winners: a tile for some pairs of a column and a row."""

    x_label: str
    y_label: str
    columns: Sequence[str]
    rows: Sequence[str]
    tiles: Mapping[tuple[str, str], Tile]
    """The tiles by column and row."""
    contestants: Sequence[str]
    """The winners, in an order that gives each its colour."""
    headings: Sequence[str] = ()
    """The titles of the columns if the map is shown as a table; the columns themselves by default."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One section of a stacked bar."""

    name: str
    value: float


@dataclasses.dataclass(frozen=True)
class Bar:
    """Sections that add up, in the order in which they are stacked."""

    name: str
    parts: Sequence[Part]

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


@dataclasses.dataclass(frozen=True)
class StackedBars(Drawn):
    """Bars made of sections; sections of one name have one colour in all bars."""

    unit: str
    bars: Sequence[Bar]
    limits: Sequence[Mark] = ()
    """Sizes that the bars are held against; one that lies far beyond the longest bar is left out of a picture."""
    digits: Digits = "three"
    detail: bool = dataclasses.field(default=False, kw_only=True)

    def amount(self, value: float) -> str:
        """A size as text, without its unit."""
        return in_unit(value, self.unit, self.digits)

    @property
    def sections(self) -> list[str]:
        """The names of all sections, each once."""
        return list(dict.fromkeys(part.name for bar in self.bars for part in bar.parts))

    @property
    def longest(self) -> float:
        return max((bar.total for bar in self.bars), default=0.0)

    @property
    def limits_shown(self) -> list[Mark]:
        """Those within reach of the longest bar."""
        return [mark for mark in self.limits if mark.y <= 1.3 * self.longest]


Figure = Chart | Panels | Landscape | Strip | Intervals | StackedBars | HeatMap
