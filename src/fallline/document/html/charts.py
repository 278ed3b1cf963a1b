"""A chart as a figure of the plotting library; the page's script knows the colours and the width.

Colours are names of the page's style, such as ``@series-1`` and ``@ink``, because a page is light or dark as its reader
likes it.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from typing import Any

from fallline.document.figures import Axis, Chart, Series
from fallline.document.html.arrays import packed

COLOURS = 11
"""Colours of lines in the page's style."""
DASHES = ("solid", "6px,2px", "2px,2px", "8px,2px,2px,2px")
"""Dashes change with every third line, so that neighbours differ without colour."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
"""The shapes of points, which differ without colour too."""
WIDTH, DOT = 2.0, 8
BAND = 0.16
"""The opacity of bands."""


def plain(words: str) -> str:
    """Text for the library, which reads tags and entities in it."""
    return html.escape(words, quote=False)


def chart_figure(chart: Chart) -> dict[str, Any]:
    """``traces`` and ``layout`` for the library, and ``series`` for the legend and for CSV."""
    traces: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    colours = itertools.accumulate(0 if series.extends else 1 for series in chart.series)
    extended = any(series.extends for series in chart.series)
    for number, series in zip(colours, chart.series, strict=True):
        style = line_style(number - 1)
        if extended:  # dashes say what is expected
            style["dash"] = DASHES[2] if series.extends else DASHES[0]
        entry = {"name": series.name, "colour": style["color"], "dash": style["dash"], "extends": series.extends}
        made = [_dots(series, style, number - 1)] if series.scattered else _traces(chart, series, style)
        places = range(len(traces), len(traces) + len(made))
        banded = series.low is not None and not series.scattered
        line, band = (places[2], list(places[:2])) if banded else (places[0], None)
        entry |= {"traces": list(places), "line": line, "band": band}
        entry |= {"dash": "dot", "symbol": _symbol(number - 1)} if series.scattered else {}
        traces += made
        listed.append(entry)
    return {"kind": "chart", "traces": traces, "layout": _layout(chart), "series": listed}


def line_style(index: int) -> dict[str, Any]:
    """The style of a line: the first eleven have a colour each, and with dashes up to 44 lines differ."""
    turn, colour = divmod(index, COLOURS)
    dash = DASHES[(colour // 3 + turn) % len(DASHES)]
    return {"color": f"@series-{colour + 1}", "dash": dash, "width": WIDTH}


def _symbol(index: int) -> str:
    return SYMBOLS[index % len(SYMBOLS)]


def _traces(chart: Chart, series: Series, style: dict[str, Any]) -> list[dict[str, Any]]:
    """The line of a series, after both edges of its band and before the dot at its end, as far as it has them."""
    shape = "hv" if chart.steps else "linear"
    line = {**style, "shape": shape}
    shared = {"type": "scatter", "x": packed(series.x), "name": plain(series.name)}
    found: list[dict[str, Any]] = []
    if series.low is not None and series.high is not None:
        edge = {"width": 0, "shape": shape, "color": style["color"]}
        unseen = {**shared, "mode": "lines", "hoverinfo": "skip", "showlegend": False, "line": edge}
        filled = {"fill": "tonexty", "fillcolor": f"{style['color']}/{BAND}"}
        found = [{**unseen, "y": packed(series.low)}, {**unseen, **filled, "y": packed(series.high)}]
    drawn = {**shared, "mode": "lines", "y": packed(series.y), "line": line, "showlegend": not series.extends}
    if series.words is not None:
        drawn |= {"mode": "lines+markers+text", "marker": {"size": DOT - 2, "color": style["color"]}}
        drawn |= {"text": [plain(words) for words in series.words]}
        drawn |= {"textposition": "top right", "textfont": {"color": "@muted"}}
    return [*found, drawn, *([_end(series, style)] if series.ends and len(series.x) else [])]


def _end(series: Series, style: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "x": packed(series.x[-1:]), "y": packed(series.y[-1:]),
        "name": plain(series.name), "marker": {"size": DOT, "color": style["color"], "line": {"width": 0}},
        "hoverinfo": "skip", "showlegend": False, "cliponaxis": False,
    }  # fmt: skip


def _dots(series: Series, style: dict[str, Any], index: int) -> dict[str, Any]:
    """Points without a line; an interval is a bar through its point."""
    found: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": plain(series.name),
        "x": packed(series.x),
        "y": packed(series.y),
        "marker": {"size": DOT, "color": style["color"], "symbol": _symbol(index)},
    }
    if series.low is not None and series.high is not None:
        found["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": packed([high - y for y, high in zip(series.y, series.high, strict=True)]),
            "arrayminus": packed([y - low for y, low in zip(series.y, series.low, strict=True)]),
            "color": style["color"],
            "thickness": 1.2,
            "width": 0,
        }
    return found


def _layout(chart: Chart) -> dict[str, Any]:
    return {
        "xaxis": {**_axis(chart.x), "title": {"text": plain(chart.x.label), "standoff": 10}},
        "yaxis": _axis(chart.y),
        "annotations": [label_above(chart.y.label), *(_mark_text(mark.y, mark.text, chart.y) for mark in chart.marks)],
        "shapes": [_mark_line(mark.y) for mark in chart.marks],
        "hovermode": "closest" if any(series.scattered for series in chart.series) else "x unified",
    }


def _axis(axis: Axis) -> dict[str, Any]:
    ends: Sequence[float] = (axis.low, axis.high)
    found: dict[str, Any] = {"range": [math.log10(end) for end in ends] if axis.log else list(ends)}
    if axis.log:
        found |= {"type": "log", "dtick": 1 if math.log10(axis.high / axis.low) > 1.5 else "D1"}
    if axis.ticks is not None:
        found |= {
            "tickmode": "array",
            "tickvals": list(axis.ticks),
            "ticktext": [plain(words) for words in axis.ticks.values()],
        }
    return found


def label_above(words: str) -> dict[str, Any]:
    """The label of the vertical axis, above it: sideways it would be hard to read, and too wide for a telephone."""
    return {
        "text": plain(words), "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom",
        "yshift": 6, "showarrow": False, "font": {"color": "@muted"}, "align": "left",
    }  # fmt: skip


def _mark_line(y: float) -> dict[str, Any]:
    line = {"color": "@muted", "width": 1.2, "dash": "4px,3px"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "layer": "below"}


def _mark_text(y: float, words: str, axis: Axis) -> dict[str, Any]:
    """At the left, where curves have not come near yet."""
    return {
        "text": plain(words), "xref": "paper", "x": 0.01, "xanchor": "left", "yanchor": "bottom", "showarrow": False,
        "y": math.log10(y) if axis.log else y, "font": {"color": "@muted"},
    }  # fmt: skip
