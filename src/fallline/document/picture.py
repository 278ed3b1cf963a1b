"""Figures as PNG or SVG, drawn by matplotlib."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fallline.document.figures import Chart, Figure, HeatMap, Mark, Series, StackedBars, Tile
from fallline.document.numbers import written

FORMATS = ("png", "svg")
UNAVAILABLE = "figures need matplotlib; pip install 'fallline[bench]'"
LINE_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#222222",
    "#7A5C3E",
    "#8E5EA2",
    "#94A832",
    "#5D6D7E",
)
"""The first six are Okabe and Ito's, which stay apart for colour-blind eyes; dashes change with every third."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
TILE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's colours, which colour-blind readers can distinguish; every tile also names its winner."""
TIE, BLANK, EDGE, MARK = "#dddddd", "#ffffff", "#999999", "#555555"
HATCH = "////"
FAINTEST, STRONGEST_LEAD = 0.25, 8.0
"""The strength of the colour of a winner without a lead, and the lead from which on the colour is full."""


class FiguresUnavailable(RuntimeError):
    """Raised if matplotlib is not installed."""


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def save_all(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Writes every figure under its own name, as PNG and SVG, and returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{figure.name}.{suffix}" for figure in figures for suffix in FORMATS]
    for path, figure in zip(written, (figure for figure in figures for _ in FORMATS), strict=True):
        save([figure], path)
    return written


def save(figures: Sequence[Figure], path: Path, footer: str = "") -> None:
    """Draws all figures in one picture, one below the other; the ending of the file chooses the format."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise FiguresUnavailable(UNAVAILABLE) from None
    sizes = [_size(figure) for figure in figures]
    maps = [figure for figure in figures if isinstance(figure, HeatMap)]
    height = sum(tall for _, tall in sizes) + (0.8 if maps else 0.0)
    made = Canvas(figsize=(max(wide for wide, _ in sizes), height), layout="constrained")
    FigureCanvasAgg(made)
    grid = made.add_gridspec(len(figures), 1, height_ratios=[tall for _, tall in sizes])
    for at, figure in enumerate(figures):
        axes = made.add_subplot(grid[at, 0])
        if isinstance(figure, HeatMap):
            draw_map(axes, figure)
        elif isinstance(figure, StackedBars):
            draw_bars(axes, figure)
        else:
            draw_chart(axes, figure)
    if maps:
        handles = _legend(maps)
        made.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)), fontsize=8, frameon=False)
    if footer:
        made.supxlabel(footer, fontsize=8)
    # Without dates the same data gives the same file.
    made.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height in inches."""
    return (9.0, 0.9 + 0.45 * len(figure.rows)) if isinstance(figure, HeatMap) else (8.6, 4.8)


# ------------------------------------------------------------------ lines


def line_style(index: int) -> dict[str, Any]:
    """The style of a line: the first eleven have a colour each, and with dashes up to 44 lines differ."""
    turn, colour = divmod(index, len(LINE_COLOURS))
    return {
        "color": LINE_COLOURS[colour],
        "linestyle": DASHES[(colour // 3 + turn) % len(DASHES)],
        "linewidth": 1.8,
    }


def draw_chart(axes: Any, chart: Chart) -> None:
    lines = itertools.accumulate(0 if series.extends else 1 for series in chart.series)
    extended = any(series.extends for series in chart.series)
    for index, series in zip(lines, chart.series, strict=True):
        style = line_style(index - 1)
        if extended:  # dashes say what is expected
            style["linestyle"] = DASHES[2] if series.extends else DASHES[0]
        label = None if series.extends else series.name
        if series.scattered:
            _draw_dots(axes, series, style["color"])
            continue
        if chart.steps:
            axes.step(series.x, series.y, where="post", label=label, **style)
        else:
            axes.plot(series.x, series.y, label=label, **style)
        if series.low is not None and series.high is not None:
            step = "post" if chart.steps else None
            axes.fill_between(
                series.x, series.low, series.high, step=step, color=style["color"], alpha=0.15, linewidth=0
            )
        if series.ends:
            axes.plot(series.x[-1:], series.y[-1:], "o", color=style["color"], markersize=5, zorder=3)
    for axis, set_scale in ((chart.x, axes.set_xscale), (chart.y, axes.set_yscale)):
        if axis.log:
            set_scale("log")
    axes.set(xlim=(chart.x.low, chart.x.high), ylim=(chart.y.low, chart.y.high))
    axes.set(xlabel=chart.x.label, ylabel=chart.y.label)
    _draw_marks(axes, chart.marks)
    for axis, place in ((chart.x, axes.set_xticks), (chart.y, axes.set_yticks)):
        if axis.ticks is not None:
            place(list(axis.ticks), list(axis.ticks.values()))
    _draw_title(axes, chart.title, chart.caption)
    axes.grid(color=TIE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)


def _draw_marks(axes: Any, marks: Sequence[Mark]) -> None:
    """Dashed lines at heights, each with its text at the right edge."""
    for mark in marks:
        axes.axhline(mark.y, color=MARK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        axes.annotate(
            mark.text, (1.0, mark.y), xycoords=axes.get_yaxis_transform(), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=9, color=MARK,
        )  # fmt: skip


def _draw_title(axes: Any, title: str, caption: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold", pad=20.0 if caption else None)
    if caption:
        axes.annotate(
            caption, (0.0, 1.0), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
            fontsize=9, color=MARK,
        )  # fmt: skip


# ------------------------------------------------------------------ bars


def draw_bars(axes: Any, figure: StackedBars) -> None:
    """Bars from the bottom up; a section tall enough for it has its size written in it."""
    sections = figure.sections
    for at, bar in enumerate(figure.bars):
        bottom = 0.0
        for part in bar.parts:
            colour = LINE_COLOURS[sections.index(part.name) % len(LINE_COLOURS)]
            label = part.name if all(part.name not in [p.name for p in b.parts] for b in figure.bars[:at]) else None
            axes.bar(at, part.value, 0.62, bottom=bottom, color=colour, edgecolor="white", linewidth=0.8, label=label)
            if part.value > 0.035 * figure.longest:
                shown = written(part.value, figure.digits)
                ink = _ink(_rgb(colour))
                axes.text(at, bottom + part.value / 2, shown, ha="center", va="center", fontsize=9, color=ink)
            bottom += part.value
        shown = f"{written(bar.total, figure.digits)} {figure.unit}"
        axes.annotate(
            shown, (at, bottom), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9, fontweight="bold"
        )
    _draw_marks(axes, figure.limits_shown)
    tallest = max([figure.longest, *(mark.y for mark in figure.limits_shown)], default=1.0) or 1.0
    axes.set(xlim=(-0.6, max(1.6, len(figure.bars) - 0.4)), ylim=(0, 1.1 * tallest), ylabel=figure.unit)
    axes.set_xticks(range(len(figure.bars)), [bar.name for bar in figure.bars])
    axes.tick_params(axis="x", length=0)
    _draw_title(axes, figure.title, figure.caption)
    axes.grid(axis="y", color=TIE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Upside down, so that the legend reads as the bars are stacked.
    axes.legend(loc="upper left", bbox_to_anchor=(1.1, 1.0), frameon=False, fontsize=9, reverse=True)


def _draw_dots(axes: Any, series: Series, colour: str) -> None:
    edges = None
    if series.low is not None and series.high is not None:
        below = [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
        edges = [below, [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]]
    axes.errorbar(series.x, series.y, edges, fmt="o", markersize=5, elinewidth=1.2, color=colour, label=series.name)


# ------------------------------------------------------------------ maps


def draw_map(axes: Any, figure: HeatMap) -> None:
    from matplotlib.patches import Rectangle

    for y, row in enumerate(figure.rows):
        for x, column in enumerate(figure.columns):
            tile = figure.tiles.get((column, row))
            fill, hatch = _fill(figure, tile)
            axes.add_patch(
                Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=fill, hatch=hatch, edgecolor=EDGE, linewidth=0.5)
            )
            if tile is not None:
                axes.text(x, y, _words(tile), ha="center", va="center", fontsize=8, color=_ink(fill))
    axes.set_xlim(-0.5, len(figure.columns) - 0.5)
    axes.set_ylim(len(figure.rows) - 0.5, -0.5)
    axes.set_xticks(range(len(figure.columns)), list(figure.columns))
    axes.set_yticks(range(len(figure.rows)), [f"{int(row):,}" if row.isdigit() else row for row in figure.rows])
    axes.tick_params(length=0, labelsize=8)
    axes.set_xlabel(figure.x_label, fontsize=9)
    axes.set_ylabel(figure.y_label, fontsize=9)
    axes.set_title(figure.caption or figure.title, fontsize=9)


def _words(tile: Tile) -> str:
    if tile.set_aside:
        return ""
    return f"{tile.text}\n{tile.caption}" if tile.caption else tile.text


def _fill(figure: HeatMap, tile: Tile | None) -> tuple[Any, str | None]:
    """Colour and hatching of a tile."""
    if tile is None:
        return _rgb(BLANK), None
    if tile.set_aside:
        return _rgb(BLANK), HATCH
    if tile.winner is None:
        return _rgb(TIE), None
    strength = FAINTEST + (1 - FAINTEST) * min(1.0, math.log(max(1.0, tile.lead)) / math.log(STRONGEST_LEAD))
    pure = _rgb(_tile_colour(figure, tile.winner))
    return tuple(1 - strength * (1 - part) for part in pure), None


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _tile_colour(figure: HeatMap, name: str) -> str:
    return TILE_COLOURS[figure.contestants.index(name) % len(TILE_COLOURS)]


def _ink(fill: Sequence[float]) -> str:
    """Black or white, whichever is easier to read on that colour."""
    red, green, blue = fill
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.38 else "white"


def _legend(maps: Sequence[HeatMap]) -> list[Any]:
    """The legend: contestants that win somewhere, and the meaning of the other tiles."""
    from matplotlib.patches import Patch

    tiles = [(figure, tile) for figure in maps for tile in figure.tiles.values()]
    handles = {
        tile.winner: Patch(facecolor=_tile_colour(figure, tile.winner), label=f"{tile.winner} wins")
        for figure, tile in tiles
        if tile.winner is not None and not tile.set_aside
    }
    found = list(handles.values())
    if any(tile.tied for _, tile in tiles):
        found.append(Patch(facecolor=TIE, label="tie"))
    if any(tile.set_aside for _, tile in tiles):
        found.append(Patch(facecolor=BLANK, hatch=HATCH, edgecolor=EDGE, label="set aside by a gate"))
    if any(len(figure.tiles) < len(figure.columns) * len(figure.rows) for figure in maps):
        found.append(Patch(facecolor=BLANK, edgecolor=EDGE, label="not in this table"))
    return found
