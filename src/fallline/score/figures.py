"""The two figures of a leaderboard: performance profiles, and the score as a function of τ_max."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fallline.score import profiles
from fallline.score.leaderboard import TAU_MAX_AXIS, Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg")
_COLOURS = (
    "#1b6ca8",
    "#d1495b",
    "#3c8d53",
    "#8e5ea2",
    "#e08e2b",
    "#37a6a6",
    "#7a5c3e",
    "#c45ab3",
    "#5d6d7e",
    "#94a832",
    "#222222",
)
_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


UNAVAILABLE = "figures need matplotlib; pip install 'fallline[bench]'"


class FiguresUnavailable(RuntimeError):
    """matplotlib is not installed."""


def draw(board: Leaderboard, folder: Path) -> list[Path]:
    """Writes both figures as PNG and SVG; returns the files."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise FiguresUnavailable(UNAVAILABLE) from None
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in (("profiles", _profiles), ("score_vs_tau_max", _score_by_tau_max)):
        figure = Figure(figsize=(8.6, 4.8), layout="constrained")
        FigureCanvasAgg(figure)
        plot(figure.add_subplot(), board)
        for suffix in FORMATS:
            written.append(folder / f"{name}.{suffix}")
            # Without dates and random ids the same data gives the same file.
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(written[-1], dpi=150, metadata=metadata)
    return written


def _style(index: int) -> dict[str, Any]:
    """AlgoPerf's eleven contestants have a colour each; of up to 44, colours and dashes together do not repeat."""
    turn, colour = divmod(index, len(_COLOURS))
    return {
        "color": _COLOURS[colour],
        "linestyle": _STYLES[(colour // 3 + turn) % len(_STYLES)],
        "linewidth": 1.8,
    }


def _profiles(axes: Axes, board: Leaderboard) -> None:
    for index, row in enumerate(board.rows):
        finite = sorted(r for r in row.ratios.values() if math.isfinite(r) and r <= board.tau_max)
        # A step at every ratio, drawn exactly: no grid of τ.
        taus = np.array([1.0, *finite, board.tau_max])
        heights = profiles.profile(np.array(list(row.ratios.values())), taus)
        axes.step(taus, heights, where="post", label=f"{row.contestant}  {row.score:.4f}", **_style(index))
    count = len(board.workloads)
    axes.set(
        xlim=(1.0, board.tau_max),
        ylim=(-0.01, 1.01),
        xlabel="τ: time to target over the fastest contestant's",
        ylabel=f"share of {count} workloads within τ",
    )
    step = 8 if 8 % count == 0 else count
    axes.set_yticks([i / step for i in range(step + 1)], [f"{i}/{step}" for i in range(step + 1)])
    _finish(axes, "Performance profiles")


def _score_by_tau_max(axes: Axes, board: Leaderboard) -> None:
    for index, row in enumerate(board.rows):
        axes.plot(TAU_MAX_AXIS, board.by_tau_max[row.contestant], label=row.contestant, **_style(index))
    axes.set(
        xlim=(TAU_MAX_AXIS[0], TAU_MAX_AXIS[-1]),
        ylim=(-0.01, 1.01),
        xlabel="τ_max: where the integral of the profile ends",
        ylabel="score",
    )
    _finish(axes, "Score against τ_max")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
