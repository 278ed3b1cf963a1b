"""A map of winners: sizes down, counts across, and in each tile the factor to the next implementation."""

from __future__ import annotations

import statistics

from fallline.document.figures import HeatMap, Tile
from fallline.document.numbers import counted
from fallline.step.analyse import CellResult, TableResult
from fallline.step.tables import milliseconds


def can_be_drawn(table: TableResult) -> bool:
    return len(table.rows) > 1 and table.is_grid


def heat_map(table: TableResult) -> HeatMap:
    counts = sorted({row.cell.tensors for row in table.rows})
    sizes = sorted({row.cell.size or 0 for row in table.rows})
    return HeatMap(
        name="winners",
        title=f"{table.title}: winner and its lead over the next",
        caption=f"{table.title}: winner, its lead over the next, its time",
        x_label="tensors",
        y_label="size",
        columns=[str(count) for count in counts],
        headings=[counted(count, "tensor") for count in counts],
        rows=[str(size) for size in sizes],
        tiles={(str(row.cell.tensors), str(row.cell.size)): _tile(row) for row in table.rows},
        contestants=table.arms,
    )


def _tile(row: CellResult) -> Tile:
    if row.wrong:
        return Tile("!", set_aside=True)
    if row.fastest is None:
        return Tile("–")
    time = f"{milliseconds(row.arms[row.fastest])} ms"
    if row.tied:
        return Tile("tie", tied=True, caption=time)
    factor = lead(row)
    words = f"{row.fastest} {factor:.2g}×" if factor < 100 else f"{row.fastest} {factor:.0f}×"
    return Tile(words, row.winner, factor, caption=time)


def lead(row: CellResult) -> float:
    """The ratio of the second fastest time to the fastest."""
    able = sorted(statistics.median(arm.samples) for arm in row.arms.values() if arm.counts)
    return able[1] / able[0] if len(able) > 1 else 1.0
