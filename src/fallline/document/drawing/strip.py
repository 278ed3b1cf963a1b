"""Small pictures in rows, with a name above each column."""

from __future__ import annotations

from typing import Any

from fallline.document.drawing.inks import heading
from fallline.document.figures import Strip


def draw_strip(part: Any, figure: Strip) -> None:
    """Draws into a part of the picture; light objects on a dark ground become dark ones on the white page."""
    grid = part.subplots(len(figure.rows), len(figure.columns), squeeze=False)
    for row, pictures in zip(grid, figure.rows, strict=True):
        for axes, picture in zip(row, pictures, strict=True):
            axes.imshow(picture, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            axes.set_axis_off()
    for axes, name in zip(grid[0], figure.columns, strict=True):
        axes.set_title(name, fontsize=9)
    heading(part, figure.title, figure.caption)
