"""The two figures of a leaderboard: performance profiles, and the score as a function of τ_max."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fallline.document.figures import Axis, Chart, Figure, Series
from fallline.score import profiles
from fallline.score.leaderboard import TAU_MAX_AXIS, Leaderboard, Row, tau_axis

MOST_TICKS = 12
MARGIN = 0.01
"""The margin of the vertical axes, so that lines at both ends are seen."""


def figures(board: Leaderboard) -> list[Figure]:
    """The profile of a single workload is a jump from 0 to 1, which the table says better: there is none."""
    found: list[Figure] = [] if len(board.workloads) < 2 else [performance_profiles(board)]
    return [*found, score_by_tau_max(board)]


def performance_profiles(board: Leaderboard) -> Chart:
    count = len(board.workloads)
    # A tick for every share that so many workloads can have, or for every few of them.
    every = math.ceil(count / MOST_TICKS)
    shares = sorted({*range(0, count + 1, every), count})
    return Chart(
        name="profiles",
        title="Performance profiles",
        x=Axis("τ: time to target over the fastest contestant's", 1.0, board.tau_max),
        y=Axis(
            f"share of {count} workloads within τ",
            -MARGIN,
            1.0 + MARGIN,
            {share / count: f"{share}/{count}" for share in shares},
        ),
        series=[_profile(board, index) for index in range(len(board.rows))],
        steps=True,
        caption=f"band: 95 % interval at each τ, bootstrap over {board.studies} studies" if board.bands else "",
    )


def _profile(board: Leaderboard, index: int) -> Series:
    """A step at every ratio, exactly; the band is on a grid of τ."""
    row = board.rows[index]
    finite = [ratio for ratio in row.ratios.values() if math.isfinite(ratio) and ratio <= board.tau_max]
    name = f"{row.contestant}  {row.score:.4f}"
    if row.contestant not in board.bands:
        taus = [1.0, *sorted(finite), board.tau_max]
        return Series(name, taus, _heights(row, taus))
    grid = tau_axis(board.tau_max)
    taus = sorted({*finite, *grid})
    # A band goes on from a point of the grid as it is there, until the next.
    at = np.searchsorted(grid, taus, side="right") - 1
    heights = _heights(row, taus)
    low, high = ([edge[place] for place in at] for edge in board.bands[row.contestant])
    low = [min(edge, height) for edge, height in zip(low, heights, strict=True)]
    high = [max(edge, height) for edge, height in zip(high, heights, strict=True)]
    return Series(name, taus, heights, low, high)


def _heights(row: Row, taus: Sequence[float]) -> list[float]:
    return [float(height) for height in profiles.profile(np.array(list(row.ratios.values())), np.array(taus))]


def score_by_tau_max(board: Leaderboard) -> Chart:
    return Chart(
        name="score_vs_tau_max",
        title="Score against τ_max",
        x=Axis("τ_max: where the integral of the profile ends", TAU_MAX_AXIS[0], TAU_MAX_AXIS[-1]),
        y=Axis("score", -MARGIN, 1.0 + MARGIN),
        series=[Series(row.contestant, TAU_MAX_AXIS, board.by_tau_max[row.contestant]) for row in board.rows],
    )
