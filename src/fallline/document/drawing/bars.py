"""Stacked bars."""

from __future__ import annotations

from typing import Any

from fallline.document.drawing.inks import LINE_COLOURS, TIE, ink_on, title
from fallline.document.drawing.lines import draw_marks
from fallline.document.figures import StackedBars


def draw_bars(axes: Any, figure: StackedBars) -> None:
    """Bars from the bottom up; a section tall enough for it has its size written in it."""
    from matplotlib.colors import to_rgb

    sections = figure.sections
    for at, bar in enumerate(figure.bars):
        bottom = 0.0
        for part in bar.parts:
            colour = LINE_COLOURS[sections.index(part.name) % len(LINE_COLOURS)]
            label = part.name if all(part.name not in [p.name for p in b.parts] for b in figure.bars[:at]) else None
            axes.bar(at, part.value, 0.62, bottom=bottom, color=colour, edgecolor="white", linewidth=0.8, label=label)
            if part.value > 0.035 * figure.longest:
                shown = figure.amount(part.value)
                ink = ink_on(to_rgb(colour))
                axes.text(at, bottom + part.value / 2, shown, ha="center", va="center", fontsize=9, color=ink)
            bottom += part.value
        shown = f"{figure.amount(bar.total)} {figure.unit}"
        axes.annotate(
            shown, (at, bottom), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9, fontweight="bold"
        )
    draw_marks(axes, figure.limits_shown)
    tallest = max([figure.longest, *(mark.y for mark in figure.limits_shown)], default=1.0) or 1.0
    middle, half = (len(figure.bars) - 1) / 2, max(1.0, len(figure.bars) / 2 + 0.1)
    axes.set(xlim=(middle - half, middle + half), ylim=(0, 1.1 * tallest), ylabel=figure.unit)
    axes.set_xticks(range(len(figure.bars)), [bar.name for bar in figure.bars])
    axes.tick_params(axis="x", length=0)
    title(axes, figure.title, figure.caption)
    axes.grid(axis="y", color=TIE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Upside down, so that the legend reads as the bars are stacked.
    axes.legend(loc="upper left", bbox_to_anchor=(1.1, 1.0), frameon=False, fontsize=9, reverse=True)
