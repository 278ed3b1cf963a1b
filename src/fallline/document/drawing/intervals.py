"""Estimates with their intervals, below each other."""

from __future__ import annotations

from typing import Any

from fallline.document.drawing.inks import LINE_COLOURS, MARK, title
from fallline.document.drawing.lines import draw_frame
from fallline.document.figures import Intervals


def draw_intervals(axes: Any, figure: Intervals) -> None:
    if figure.x.log:
        axes.set_xscale("log")
    for at, row in enumerate(figure.rows):
        colour = LINE_COLOURS[1] if row.strong else LINE_COLOURS[0]
        axes.plot([row.low, row.high], [at, at], color=colour, linewidth=3, solid_capstyle="round")
        axes.plot([row.value], [at], "o", color=colour, markersize=9, markeredgecolor="white", zorder=3)
        axes.annotate(
            f"{row.value:.2f}  ({row.low:.2f} to {row.high:.2f})", (row.value, at), xytext=(0, 10),
            textcoords="offset points", ha="center", fontsize=9, color=colour, annotation_clip=False,
        )  # fmt: skip
    axes.axvline(figure.reference, color=MARK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    axes.annotate(
        figure.reference_text, (figure.reference, 0.0), xycoords=axes.get_xaxis_transform(), xytext=(5, 5),
        textcoords="offset points", fontsize=9, color=MARK,
    )  # fmt: skip
    axes.set(xlim=(figure.x.low, figure.x.high), xlabel=figure.x.label)
    axes.set_yticks(range(len(figure.rows)), [row.name for row in figure.rows])
    axes.set_ylim(len(figure.rows) - 0.4, -0.7)
    draw_frame(axes, figure.x)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    title(axes, figure.title, figure.caption)
