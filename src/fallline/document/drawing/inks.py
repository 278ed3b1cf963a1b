"""Colours and dashes that stay apart, also for colour-blind eyes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LINE_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#222222",
    "#7A5C3E",
    "#8E5EA2",
    "#94A832",
    "#5D6D7E",
)
"""The first six are Okabe and Ito's; dashes change with every third."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
TIE, BLANK, EDGE, MARK = "#dddddd", "#ffffff", "#999999", "#555555"


def line_style(index: int) -> dict[str, Any]:
    """The style of a line: the first eleven have a colour each, and with dashes up to 44 lines differ."""
    turn, colour = divmod(index, len(LINE_COLOURS))
    return {
        "color": LINE_COLOURS[colour],
        "linestyle": DASHES[(colour // 3 + turn) % len(DASHES)],
        "linewidth": 1.8,
    }


def title(axes: Any, text: str, caption: str) -> None:
    """The title of a figure, and below it, where there is one, the line that says how it was made."""
    axes.set_title(text, loc="left", fontweight="bold", pad=20.0 if caption else None)
    if caption:
        axes.annotate(
            caption, (0.0, 1.0), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
            fontsize=9, color=MARK,
        )  # fmt: skip


def heading(part: Any, text: str, caption: str) -> None:
    """The same for a part of the picture that has several axes."""
    part.suptitle(f"{text}\n{caption}" if caption else text, x=0.01, ha="left", fontsize=11, fontweight="bold")


def ink_on(fill: Sequence[float]) -> str:
    """Black or white, whichever is easier to read on that colour."""
    red, green, blue = fill
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.38 else "white"
