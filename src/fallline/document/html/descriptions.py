"""Figures in words, for readers who do not see them."""

from __future__ import annotations

import math
from collections import Counter

from fallline.document.figures import Chart, Figure, HeatMap, Intervals, Landscape, Panels, Series, StackedBars, Strip
from fallline.document.numbers import counted, written

MOST_SERIES = 12
"""A description that lists more of them is too long to listen to."""


def description(figure: Figure) -> str:
    if isinstance(figure, Chart):
        return _of_chart(figure)
    if isinstance(figure, HeatMap):
        return _of_map(figure)
    if isinstance(figure, Panels):
        return " ".join(map(_of_chart, figure.charts))
    if isinstance(figure, Landscape):
        return _of_landscape(figure)
    if isinstance(figure, StackedBars):
        return _of_bars(figure)
    return _of_strip(figure) if isinstance(figure, Strip) else _of_intervals(figure)


def _of_bars(figure: StackedBars) -> str:
    bars = []
    for bar in figure.bars:
        parts = ", ".join(f"{part.name} {figure.amount(part.value)}" for part in bar.parts)
        bars.append(f"{bar.name}, {figure.amount(bar.total)} {figure.unit}: {parts}.")
    return f"{figure.title}. {' '.join(bars)}"


def _of_landscape(figure: Landscape) -> str:
    ends = [f"{' '.join(path.name.split())}: ends at {_point(path.x[-1], path.y[-1])}." for path in figure.paths]
    return f"{figure.title}. Contours and paths; the optimum is at {_point(*figure.optimum)}. {' '.join(ends)}"


def _point(x: float, y: float) -> str:
    return f"({written(x)}, {written(y)})"


def _of_strip(figure: Strip) -> str:
    return f"{figure.title}. {counted(len(figure.rows), 'row')} of pictures: {', '.join(figure.columns)}."


def _of_intervals(figure: Intervals) -> str:
    rows = [f"{row.name}: {written(row.value)}, {written(row.low)} to {written(row.high)}." for row in figure.rows]
    return f"{figure.title}. {figure.x.label}. {' '.join(rows)}"


def _of_chart(chart: Chart) -> str:
    kind = "Step functions" if chart.steps else "Lines"
    parts = [f"{chart.title}. {kind} of {chart.y.label} against {chart.x.label}."]
    shown = [series for series in chart.series if len(series.x)]
    parts += [_of_series(series) for series in shown[:MOST_SERIES]]
    if len(shown) > MOST_SERIES:
        parts.append(f"{counted(len(shown) - MOST_SERIES, 'further line')}.")
    parts += [f"{mark.text}." for mark in chart.marks]
    return " ".join(parts)


def _of_series(series: Series) -> str:
    name = " ".join(series.name.split())
    first, last = (f"{written(series.y[at])} at {written(series.x[at])}" for at in (0, -1))
    band = ""
    if series.low is not None and series.high is not None and math.isfinite(series.low[-1]):
        band = f", band {written(series.low[-1])} to {written(series.high[-1])}"
    expected = "expected for " if series.extends else ""
    return f"{expected}{name}: from {first} to {last}{band}."


def _of_map(figure: HeatMap) -> str:
    tiles = figure.tiles.values()
    wins = Counter(tile.winner for tile in tiles if tile.winner is not None and not tile.set_aside)
    parts = [f"{name} wins {counted(count, 'tile')}" for name, count in wins.most_common()]
    ties, aside = sum(tile.tied for tile in tiles), sum(tile.set_aside for tile in tiles)
    parts += [counted(ties, "tie")] if ties else []
    parts += [f"{aside} set aside"] if aside else []
    return f"{figure.title}. A map of {figure.y_label} by {figure.x_label}: {', '.join(parts) or 'empty'}."
