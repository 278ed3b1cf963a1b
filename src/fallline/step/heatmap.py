"""Who wins where, as a map: sizes down, counts across, the factor to the next implementation in each cell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.step.analyse import CellResult, TableResult

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
HEX = ("#2a9d5c", "#2a8fa8", "#a04aa8", "#c09a20", "#3f5fc0", "#c04a40", "#808080")


def is_grid(table: TableResult) -> bool:
    return len(table.rows) > 1 and all(row.cell.size is not None for row in table.rows)


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
    from rich.table import Table
    from rich.text import Text

    counts, sizes, by_place = _places(table)
    console.print(f"{table.title}: winner and its lead over the next", style="bold")
    shown = Table(box=None, pad_edge=False)
    shown.add_column("size", justify="right")
    for count in counts:
        shown.add_column(f"{count} tensor{'s' if count > 1 else ''}", no_wrap=True)
    for size in sizes:
        cells = []
        for count in counts:
            row = by_place.get((count, size))
            cells.append(Text(text_of(row), style=_style(table, row)))
        shown.add_row(str(size), *cells)
    console.print(shown)
    console.print()


def _style(table: TableResult, row: CellResult | None) -> str:
    if row is None or row.winner is None or row.wrong:
        return "dim"
    colour = COLOURS[table.arms.index(row.winner) % len(COLOURS)]
    return f"bold {colour}" if lead(row) >= 2 else colour


def _places(table: TableResult) -> tuple[list[int], list[int], dict[tuple[int, int], CellResult]]:
    by_place = {(row.cell.tensors, row.cell.size or 0): row for row in table.rows}
    return sorted({c for c, _ in by_place}), sorted({s for _, s in by_place}), by_place


def save(tables: Sequence[TableResult], path: Path, data: str) -> None:
    """As PNG or SVG, by the file's ending."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    maps = [table for table in tables if is_grid(table)]
    figure, axes = pyplot.subplots(
        len(maps), 1, figsize=(9, 0.9 + 3.2 * len(maps)), squeeze=False, layout="constrained"
    )
    for axis, table in zip(axes[:, 0], maps, strict=True):
        _draw(axis, table)
    figure.supxlabel(f"fallline step, data {data}", fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _draw(axis: Any, table: TableResult) -> None:
    from matplotlib.colors import to_rgba

    counts, sizes, by_place = _places(table)
    image = [[_colour(table, by_place.get((count, size)), to_rgba) for count in counts] for size in sizes]
    axis.imshow(image, aspect="auto")
    for y, size in enumerate(sizes):
        for x, count in enumerate(counts):
            axis.text(x, y, text_of(by_place.get((count, size))), ha="center", va="center", fontsize=8)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    axis.set_xlabel("tensors")
    axis.set_ylabel("elements of each")
    axis.set_title(f"{table.title}: winner and its lead over the next", fontsize=9)


def _colour(table: TableResult, row: CellResult | None, to_rgba: Any) -> Any:
    if row is None or row.winner is None or row.wrong:
        return to_rgba("#dddddd")
    strength = min(1.0, 0.25 + 0.25 * math.log2(max(1.0, lead(row))))
    return tuple(to_rgba(HEX[table.arms.index(row.winner) % len(HEX)], strength))
