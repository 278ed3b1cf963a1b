"""Charts: lines with their bands, and their names in a legend or at their ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fallline.document.drawing.inks import DASHES, MARK, TIE, heading, line_style, title
from fallline.document.figures import Axis, Chart, Mark, Panels, Series

MOST_BANDS = 6
"""More bands than eyes can take apart would hide the lines; a page shows as many."""
LABEL_HEIGHT = 0.052
"""The least distance between the names at the ends of lines, as a share of the height of a chart."""


def draw_chart(axes: Any, chart: Chart, legend: bool = True) -> None:
    lines = itertools.accumulate(0 if series.extends else 1 for series in chart.series)
    extended = any(series.extends for series in chart.series)
    banded = sum(series.low is not None for series in chart.series) <= MOST_BANDS
    colours = []
    for index, series in zip(lines, chart.series, strict=True):
        style = line_style(index - 1)
        if extended:  # dashes say what is expected
            style["linestyle"] = DASHES[2] if series.extends else DASHES[0]
        _draw_line(axes, chart, series, style, banded)
        colours.append(style["color"])
    for axis, set_scale in ((chart.x, axes.set_xscale), (chart.y, axes.set_yscale)):
        if axis.log:
            set_scale("log")
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xlabel=chart.x.label, ylabel=chart.y.label)
    draw_marks(axes, chart.marks)
    draw_frame(axes, chart.x, chart.y)
    hint = "" if banded else f"not drawn for more than {MOST_BANDS} lines"
    title(axes, chart.title, "; ".join(filter(None, (chart.caption, hint))))
    if chart.direct:
        _name_ends(axes, chart, colours)
    elif legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)


def draw_marks(axes: Any, marks: Sequence[Mark]) -> None:
    """Dashed lines at heights, each with its text at the right edge."""
    for mark in marks:
        axes.axhline(mark.y, color=MARK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        axes.annotate(
            mark.text, (1.0, mark.y), xycoords=axes.get_yaxis_transform(), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=9, color=MARK,
        )  # fmt: skip


def draw_frame(axes: Any, x: Axis, y: Axis | None = None) -> None:
    """Ticks where the axes name them, a grid behind everything, no box."""
    for axis, place, own in ((x, axes.set_xticks, axes.xaxis), (y, axes.set_yticks, axes.yaxis)):
        if axis is not None and axis.ticks is not None:
            place(list(axis.ticks), list(axis.ticks.values()))
            own.set_minor_formatter("")
    axes.grid(color=TIE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_dots(axes: Any, series: Series, colour: str) -> None:
    edges = None
    if series.low is not None and series.high is not None:
        below = [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
        edges = [below, [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]]
    axes.errorbar(series.x, series.y, edges, fmt="o", markersize=5, elinewidth=1.2, color=colour, label=series.name)


def _draw_line(axes: Any, chart: Chart, series: Series, style: dict[str, Any], banded: bool) -> None:
    label = None if series.extends else series.name
    if series.scattered:
        _draw_dots(axes, series, style["color"])
        return
    if chart.steps:
        axes.step(series.x, series.y, where="post", label=label, **style)
    else:
        axes.plot(series.x, series.y, label=label, **style)
    if banded and series.low is not None and series.high is not None:
        step = "post" if chart.steps else None
        axes.fill_between(series.x, series.low, series.high, step=step, color=style["color"], alpha=0.15, linewidth=0)
    if series.ends:
        axes.plot(series.x[-1:], series.y[-1:], "o", color=style["color"], markersize=5, zorder=3)
    if series.words is not None:
        axes.plot(series.x, series.y, "o", color=style["color"], markersize=5, zorder=3)
    for x, y, words in zip(series.x, series.y, series.words or (), strict=False):
        axes.annotate(words, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=8.5, color=MARK)


# ------------------------------------------------------------------ names at the ends of lines


def _name_ends(axes: Any, chart: Chart, colours: Sequence[str]) -> None:
    drawn = zip(chart.series, colours, strict=True)
    named = [(series, colour) for series, colour in drawn if not series.extends and series.x]
    wanted = [share(chart.y, float(series.y[-1])) for series, _ in named]
    for (series, colour), height in zip(named, spread(wanted, LABEL_HEIGHT), strict=True):
        end = share(chart.x, float(series.x[-1]))
        axes.annotate(
            series.name, (min(end, 1.0), height), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=9, color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def share(axis: Axis, value: float) -> float:
    """Where a value lies on an axis, from 0 to 1.

    >>> share(Axis("x", 1, 100, log=True), 10.0), share(Axis("x", 0, 4), 1.0), share(Axis("x", 0, 4), 9.0)
    (0.5, 0.25, 1.0)
    """
    if not math.isfinite(value):
        return 1.0
    if axis.log:
        low, high, at = math.log(axis.low), math.log(axis.high), math.log(max(value, axis.low))
    else:
        low, high, at = axis.low, axis.high, value
    return min(1.0, max(0.0, (at - low) / (high - low)))


def spread(places: Sequence[float], least: float) -> list[float]:
    """The same places, moved as little as is needed for each to be at least ``least`` away from its neighbours.

    >>> [round(place, 2) for place in spread([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and _bottom(places, groups[-1], least) < _top(places, groups[-2], least) + least:
            last = groups.pop()
            groups[-1] += last
    found = [0.0] * len(places)
    for group in groups:
        for number, at in enumerate(group):
            found[at] = _bottom(places, group, least) + number * least
    return found


def _bottom(places: Sequence[float], group: Sequence[int], least: float) -> float:
    middle = sum(places[at] for at in group) / len(group)
    return middle - least * (len(group) - 1) / 2


def _top(places: Sequence[float], group: Sequence[int], least: float) -> float:
    return _bottom(places, group, least) + least * (len(group) - 1)


# ------------------------------------------------------------------ panels


def draw_panels(part: Any, panels: Panels) -> None:
    """Draws the charts into a part of the picture, row by row.

    One legend serves all of them if they have the same lines; otherwise each has its own.
    """
    rows = math.ceil(len(panels.charts) / panels.columns)
    grid = part.subplots(rows, panels.columns, squeeze=False)
    for axes in grid.flat[len(panels.charts) :]:
        axes.set_visible(False)
    for axes, chart in zip(grid.flat, panels.charts, strict=False):
        draw_chart(axes, chart, legend=False)
        axes.set_title(chart.title, loc="left", fontsize=10, fontweight="bold")
    heading(part, panels.title, panels.caption)
    names = {tuple(series.name for series in chart.series) for chart in panels.charts}
    if len(names) == 1:
        handles, shown = grid.flat[0].get_legend_handles_labels()
        part.legend(handles, shown, loc="outside lower center", ncols=min(6, len(shown)), frameon=False, fontsize=10)
        return
    for axes, chart in zip(grid.flat, panels.charts, strict=False):
        if not chart.direct:
            axes.legend(loc="best", frameon=False, fontsize=9)
