"""Figures as PNG or SVG, drawn by matplotlib; ``drawing/`` has one file for each kind."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fallline.document.drawing.bars import draw_bars
from fallline.document.drawing.intervals import draw_intervals
from fallline.document.drawing.landscape import draw_landscape
from fallline.document.drawing.lines import draw_chart, draw_panels
from fallline.document.drawing.map import draw_map, legend
from fallline.document.drawing.strip import draw_strip
from fallline.document.figures import Chart, Figure, HeatMap, Intervals, Landscape, Panels, StackedBars, Strip

FORMATS = ("png", "svg")
DPI = 150
UNAVAILABLE = "figures need matplotlib; pip install 'fallline[bench]'"


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
        handles = legend(maps)
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


_IN_PARTS: dict[type, Callable[..., None]] = {Panels: draw_panels, Strip: draw_strip}
"""Kinds of figure that need several axes, which lie in a part of the picture of their own."""
_IN_AXES: dict[type, Callable[..., None]] = {
    Chart: draw_chart,
    HeatMap: draw_map,
    StackedBars: draw_bars,
    Intervals: draw_intervals,
    Landscape: draw_landscape,
}


def _draw(made: Any, place: Any, figure: Figure) -> None:
    """Draws a figure at its place in the picture."""
    if type(figure) in _IN_PARTS:
        _IN_PARTS[type(figure)](made.add_subfigure(place), figure)
    else:
        _IN_AXES[type(figure)](made.add_subplot(place), figure)
