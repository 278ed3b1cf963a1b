"""A function of two variables by its contours, with paths on it."""

from __future__ import annotations

from typing import Any

from fallline.document.drawing.inks import MARK, line_style, title
from fallline.document.figures import Landscape

VALLEY = "Greys"
"""The colours of heights: grey, so that only paths have colours."""
FADED = 1e4
"""The factor by which the scale of greys goes on above the highest contour, so that none is dark."""
THICK, THINNER = 3.4, 0.8
"""Where paths share a valley, each is thinner than the one below it, so that all are seen."""


def draw_landscape(axes: Any, figure: Landscape) -> None:
    import matplotlib.colors

    scale = matplotlib.colors.LogNorm(figure.levels[0], figure.levels[-1] * FADED)
    axes.contourf(
        figure.columns, figure.rows, figure.heights, levels=figure.levels, norm=scale, cmap=VALLEY, extend="both"
    )
    axes.contour(
        figure.columns, figure.rows, figure.heights, levels=figure.levels, colors=MARK, linewidths=0.4, alpha=0.6
    )
    for index, path in enumerate(figure.paths):
        style = {**line_style(index), "linestyle": "-", "linewidth": THICK * THINNER**index}
        axes.plot(path.x, path.y, **style, label=path.name, solid_joinstyle="round")
        axes.plot(path.x[-1:], path.y[-1:], "o", color=style["color"], markersize=7, markeredgecolor="white", zorder=4)
    axes.plot(*_start(figure), "s", color="white", markeredgecolor="black", markersize=7, zorder=5)
    axes.annotate(
        "start", _start(figure), xytext=(-8, 6), textcoords="offset points", ha="right", fontsize=9, color="black"
    )
    axes.plot(*figure.optimum, "*", color="#F0E442", markeredgecolor="black", markersize=17, zorder=6)
    axes.annotate(
        f"optimum ({figure.optimum[0]:g}, {figure.optimum[1]:g})", figure.optimum, xytext=(10, -14),
        textcoords="offset points", fontsize=9, color="black",
    )  # fmt: skip
    axes.set(xlim=(figure.x.low, figure.x.high), ylim=(figure.y.low, figure.y.high))
    axes.set(xlabel=figure.x.label, ylabel=figure.y.label)
    axes.spines[["top", "right"]].set_visible(False)
    title(axes, figure.title, figure.caption)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)


def _start(figure: Landscape) -> tuple[float, float]:
    return figure.paths[0].x[0], figure.paths[0].y[0]
