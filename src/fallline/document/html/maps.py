"""A map of winners as a figure of the plotting library."""

from __future__ import annotations

import math
from typing import Any

from fallline.document.figures import HeatMap, Tile
from fallline.document.html.charts import label_above, plain

COLOURS = 7
"""Colours of winners in the page's style."""
FAINTEST, STRONGEST_LEAD = 0.25, 8.0
"""The strength of the colour of a winner without a lead, and the lead from which on the colour is full."""


def map_figure(figure: HeatMap) -> dict[str, Any]:
    """One trace for each winner, and one each for ties and for tiles that were set aside."""
    found: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    kinds = [(f"{name} wins", name, f"@tile-{at % COLOURS + 1}") for at, name in enumerate(figure.contestants)]
    for words, kind, colour in [*kinds, ("tie", _TIE, "@tie"), ("set aside by a gate", _ASIDE, "@aside")]:
        if any(_kind(tile) == kind for tile in figure.tiles.values()):
            listed.append({"name": words, "colour": colour, "dash": "tile", "traces": [len(found)]})
            found.append(_trace(figure, kind, words, colour))
    ticks = {"showgrid": False, "type": "category"}
    layout = {
        "xaxis": {
            **ticks,
            "title": {"text": plain(figure.x_label), "standoff": 10},
            "categoryarray": list(figure.columns),
        },
        "yaxis": {
            **ticks,
            "autorange": "reversed",
            "categoryarray": list(figure.rows),
            "tickvals": list(figure.rows),
            "ticktext": [plain(_grouped(row)) for row in figure.rows],
        },
        "annotations": [label_above(figure.y_label)],
        "hovermode": "closest",
    }
    return {"kind": "map", "traces": found, "layout": layout, "series": listed, "rows": len(figure.rows)}


_TIE, _ASIDE = object(), object()


def _kind(tile: Tile) -> object:
    """The winner, or the sign of a tile without one."""
    if tile.set_aside:
        return _ASIDE
    return _TIE if tile.winner is None else tile.winner


def _trace(figure: HeatMap, kind: object, words: str, colour: str) -> dict[str, Any]:
    tiles = [[figure.tiles.get((column, row)) for column in figure.columns] for row in figure.rows]
    own = [[tile if tile is not None and _kind(tile) == kind else None for tile in row] for row in tiles]
    return {
        "type": "heatmap",
        "name": plain(words),
        "x": list(figure.columns),
        "y": list(figure.rows),
        "z": [[None if tile is None else _strength(tile) for tile in row] for row in own],
        "text": [["" if tile is None else _words(tile) for tile in row] for row in own],
        "texttemplate": "%{text}",
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [[0.0, "@surface"], [1.0, colour]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }


def _strength(tile: Tile) -> float:
    if tile.winner is None or tile.set_aside:
        return 1.0
    return FAINTEST + (1 - FAINTEST) * min(1.0, math.log(max(1.0, tile.lead)) / math.log(STRONGEST_LEAD))


def _words(tile: Tile) -> str:
    lines = [tile.text] if tile.set_aside or not tile.caption else [tile.text, tile.caption]
    return "<br>".join(map(plain, lines))


def _grouped(row: str) -> str:
    return f"{int(row):,}" if row.isdigit() else row
