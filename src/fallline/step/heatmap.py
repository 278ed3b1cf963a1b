"""Who wins where, as a map: sizes down, counts across, the factor to the next implementation in each cell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.step.analyse import CellResult, TableResult
from fallline.step.layout import show_fitted
from fallline.step.tables import milliseconds

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
HEX = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's colours, which stay apart for colour-blind eyes; every cell has its winner in words too."""
TIE, ASIDE, ABSENT = "#dddddd", "#ffffff", "#ffffff"
HATCH = "////"
FAINTEST, STRONGEST_LEAD = 0.25, 8.0
"""How much of its colour a winner without a lead has, and the lead from which on it has all of it."""


def can_be_drawn(table: TableResult) -> bool:
    return len(table.rows) > 1 and table.is_grid


def lead(row: CellResult) -> float:
    """How many times longer the second fastest takes."""
    able = sorted(statistics.median(arm.samples) for arm in row.arms.values() if arm.counts)
    return able[1] / able[0] if len(able) > 1 else 1.0


def text_of(row: CellResult | None) -> str:
    if row is None:
        return ""
    if row.wrong:
        return "!"
    if row.fastest is None:
        return "–"
    if row.tied:
        return "tie"
    factor = lead(row)
    return f"{row.fastest} {factor:.2g}×" if factor < 100 else f"{row.fastest} {factor:.0f}×"


def show(console: Console, table: TableResult) -> None:
    """In the terminal, coloured by winner."""
    from rich.text import Text

    counts, sizes, by_place = _places(table)
    console.print(f"{table.title}: winner and its lead over the next", style="bold")
    rows: list[list[str | Text]] = []
    for size in sizes:
        found = [by_place.get((count, size)) for count in counts]
        rows.append([str(size), *(Text(text_of(row), style=_style(table, row)) for row in found)])
    header = ["size", *(f"{count} tensor{'s' if count > 1 else ''}" for count in counts)]
    show_fitted(console, header, rows, range(1, len(header)), 1)


def _style(table: TableResult, row: CellResult | None) -> str:
    if row is None or row.winner is None or row.wrong:
        return "dim"
    colour = COLOURS[table.arms.index(row.winner) % len(COLOURS)]
    return f"bold {colour}" if lead(row) >= 2 else colour


def _places(table: TableResult) -> tuple[list[int], list[int], dict[tuple[int, int], CellResult]]:
    by_place = {(row.cell.tensors, row.cell.size or 0): row for row in table.rows}
    return sorted({c for c, _ in by_place}), sorted({s for _, s in by_place}), by_place


# ------------------------------------------------------------------ as a picture


def save(tables: Sequence[TableResult], path: Path, data: str) -> None:
    """As PNG or SVG, by the file's ending."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    maps = [table for table in tables if can_be_drawn(table)]
    heights = [0.9 + 0.45 * len(_places(table)[1]) for table in maps]
    figure, axes = pyplot.subplots(
        len(maps),
        1,
        figsize=(9, 0.8 + sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    for axis, table in zip(axes[:, 0], maps, strict=True):
        _draw(axis, table)
    handles = _legend(maps)
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)), fontsize=8, frameon=False)
    figure.supxlabel(f"fallline step, data {data}; the stronger the colour, the larger the lead", fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _draw(axis: Any, table: TableResult) -> None:
    from matplotlib.patches import Rectangle

    counts, sizes, by_place = _places(table)
    for y, size in enumerate(sizes):
        for x, count in enumerate(counts):
            row = by_place.get((count, size))
            fill, hatch = _fill(table, row)
            axis.add_patch(
                Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=fill, hatch=hatch, edgecolor="#999999", linewidth=0.5)
            )
            if row is not None:
                axis.text(x, y, _words(row), ha="center", va="center", fontsize=8, color=_ink(fill))
    axis.set_xlim(-0.5, len(counts) - 0.5)
    axis.set_ylim(len(sizes) - 0.5, -0.5)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_yticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axis.tick_params(length=0, labelsize=8)
    axis.set_xlabel("tensors", fontsize=9)
    axis.set_ylabel("elements of each", fontsize=9)
    axis.set_title(f"{table.title}: winner, its lead over the next, its time", fontsize=9)


def _words(row: CellResult) -> str:
    """The winner and its lead, and what its step takes."""
    if row.wrong:
        return ""
    if row.fastest is None:
        return "–"
    return f"{text_of(row)}\n{milliseconds(row.arms[row.fastest])} ms"


def _fill(table: TableResult, row: CellResult | None) -> tuple[Any, str | None]:
    """Colour and hatching of a cell."""
    from matplotlib.colors import to_rgb

    if row is None:
        return to_rgb(ABSENT), None
    if row.wrong:
        return to_rgb(ASIDE), HATCH
    if row.winner is None:
        return to_rgb(TIE), None
    strength = FAINTEST + (1 - FAINTEST) * min(1.0, math.log(max(1.0, lead(row))) / math.log(STRONGEST_LEAD))
    pure = to_rgb(_colour_of(table, row.winner))
    return tuple(1 - strength * (1 - part) for part in pure), None


def _colour_of(table: TableResult, name: str) -> str:
    return HEX[table.arms.index(name) % len(HEX)]


def _ink(fill: Sequence[float]) -> str:
    """Black or white, whichever is easier to read on that colour."""
    red, green, blue = fill
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.38 else "white"


def _legend(maps: Sequence[TableResult]) -> list[Any]:
    """Implementations that win somewhere, and what the other cells are."""
    from matplotlib.patches import Patch

    rows = [(table, row) for table in maps for row in table.rows]
    handles = {
        row.winner: Patch(facecolor=_colour_of(table, row.winner), label=f"{row.winner} wins")
        for table, row in rows
        if row.winner is not None and not row.wrong
    }
    found = list(handles.values())
    if any(row.tied and not row.wrong for _, row in rows):
        found.append(Patch(facecolor=TIE, label="tie"))
    if any(row.wrong for _, row in rows):
        found.append(Patch(facecolor=ASIDE, hatch=HATCH, edgecolor="#999999", label="set aside by a gate"))
    if any(len(table.rows) < len(_places(table)[0]) * len(_places(table)[1]) for table in maps):
        found.append(Patch(facecolor=ABSENT, edgecolor="#999999", label="not in this table"))
    return found
