"""Maps of winners: coloured tiles, and the legend of several maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fallline.document.drawing.inks import BLANK, EDGE, TIE, ink_on
from fallline.document.figures import HeatMap, Tile

TILE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's colours, which colour-blind readers can distinguish; every tile also names its winner."""
HATCH = "////"
FAINTEST, STRONGEST_LEAD = 0.25, 8.0
"""The strength of the colour of a winner without a lead, and the lead from which on the colour is full."""


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


def legend(maps: Sequence[HeatMap]) -> list[Any]:
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
