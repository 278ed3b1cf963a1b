"""Figures as PNG or SVG, drawn by matplotlib; ``drawing/`` has the kinds of lines, landscapes, strips and intervals."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fallline.document.drawing.bars import draw_bars
from fallline.document.drawing.inks import BLANK, EDGE, TIE, ink_on
from fallline.document.drawing.intervals import draw_intervals
from fallline.document.drawing.landscape import draw_landscape
from fallline.document.drawing.lines import draw_chart, draw_panels
from fallline.document.drawing.strip import draw_strip
from fallline.document.figures import Figure, HeatMap, Intervals, Landscape, Panels, StackedBars, Strip, Tile

FORMATS = ("png", "svg")
DPI = 150
UNAVAILABLE = "figures need matplotlib; pip install 'fallline[bench]'"
TILE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's colours, which colour-blind readers can distinguish; every tile also names its winner."""
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


def png(figure: Figure) -> bytes:
    """One figure as the content of a file."""
    made = io.BytesIO()
    _picture([figure]).savefig(made, format="png", dpi=DPI)
    return made.getvalue()


def save(figures: Sequence[Figure], path: Path, footer: str = "") -> None:
    """Draws all figures in one picture, one below the other; the ending of the file chooses the format."""
    # Without dates the same data gives the same file.
    _picture(figures, footer).savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)


def _picture(figures: Sequence[Figure], footer: str = "") -> Any:
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
        _draw(made, grid[at, 0], figure)
    if maps:
        handles = _legend(maps)
        made.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)), fontsize=8, frameon=False)
    if footer:
        made.supxlabel(footer, fontsize=8)
    return made


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height in inches."""
    if isinstance(figure, HeatMap):
        return 9.0, 0.9 + 0.45 * len(figure.rows)
    if isinstance(figure, Panels):
        return 3.9 * figure.columns, 0.9 + 2.9 * math.ceil(len(figure.charts) / figure.columns)
    if isinstance(figure, Strip):
        return 0.95 * len(figure.columns), 0.7 + 0.95 * len(figure.rows)
    if isinstance(figure, Intervals):
        return 8.6, 1.4 + 0.62 * len(figure.rows)
    return (8.6, 5.4) if isinstance(figure, Landscape) else (8.6, 4.8)


def _draw(made: Any, place: Any, figure: Figure) -> None:
    """Draws a figure at its place in the picture: in axes, or in a part of its own where it needs several."""
    if isinstance(figure, Panels):
        draw_panels(made.add_subfigure(place), figure)
    elif isinstance(figure, Strip):
        draw_strip(made.add_subfigure(place), figure)
    elif isinstance(figure, HeatMap):
        draw_map(made.add_subplot(place), figure)
    elif isinstance(figure, StackedBars):
        draw_bars(made.add_subplot(place), figure)
    elif isinstance(figure, Intervals):
        draw_intervals(made.add_subplot(place), figure)
    elif isinstance(figure, Landscape):
        draw_landscape(made.add_subplot(place), figure)
    else:
        draw_chart(made.add_subplot(place), figure)


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
                axes.text(x, y, _words(tile), ha="center", va="center", fontsize=8, color=ink_on(fill))
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
    from matplotlib.colors import to_rgb

    if tile is None:
        return to_rgb(BLANK), None
    if tile.set_aside:
        return to_rgb(BLANK), HATCH
    if tile.winner is None:
        return to_rgb(TIE), None
    strength = FAINTEST + (1 - FAINTEST) * min(1.0, math.log(max(1.0, tile.lead)) / math.log(STRONGEST_LEAD))
    pure = to_rgb(_tile_colour(figure, tile.winner))
    return tuple(1 - strength * (1 - part) for part in pure), None


def _tile_colour(figure: HeatMap, name: str) -> str:
    return TILE_COLOURS[figure.contestants.index(name) % len(TILE_COLOURS)]


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
