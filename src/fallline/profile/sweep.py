"""A sweep: the same profile at several sizes, the trend of a gap between two arms, and where throughput breaks down."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from fallline.measure.stats import ALPHA
from fallline.measure.student import t_quantile
from fallline.profile.estimate import CellEstimate
from fallline.profile.trained import MAJOR, MINOR

CLIFF = 0.10
"""A fall of throughput by more than this from one size to the next."""


@dataclasses.dataclass(frozen=True)
class Trend:
    """The gap in ms per step over the axis: a mean, and its slope per unit of the axis."""

    mean: float
    slope: float
    slope_low: float
    slope_high: float
    points: int

    @property
    def is_constant(self) -> bool:
        """Whether nothing says that the gap grows or shrinks."""
        return self.slope_low <= 0.0 <= self.slope_high


def gaps(cells: Sequence[CellEstimate], arm: str) -> list[tuple[float, float, float]]:
    """(axis, gap in seconds per step, its standard error) of every cell in which both arms have steps."""
    found = []
    for cell in cells:
        own, base = cell.arms.get(arm), cell.baseline
        place = axis_value(cell)
        if own is None or base is None or own.delta is None or place is None or not math.isfinite(own.delta.low):
            continue
        half = (own.delta.high - own.delta.low) / 2 / t_quantile(ALPHA / 2, max(1, own.delta.count - 1))
        found.append((place, own.seconds - base.seconds, half * base.seconds))
    return found


def axis_value(cell: CellEstimate) -> float | None:
    """The place of a cell on its axis as a number."""
    text = cell.record.plan.label.rpartition(" ")[2]
    try:
        return float(text)
    except ValueError:
        return None


def trend(points: Sequence[tuple[float, float, float]]) -> Trend | None:
    """A straight line through the gaps, weighted by their errors; None of fewer than three points.

    >>> found = trend([(16, 0.0101, 0.001), (32, 0.0098, 0.001), (64, 0.0102, 0.001), (128, 0.0099, 0.001)])
    >>> found.is_constant, round(1e3 * found.mean, 1)
    (True, 10.0)
    >>> trend([(16, 0.0016, 1e-5), (32, 0.0032, 1e-5), (64, 0.0065, 1e-5), (128, 0.0127, 1e-5)]).is_constant
    False
    """
    if len(points) < 3:
        return None
    x, y, error = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    weight = 1 / np.maximum(error, 1e-3 * max(float(np.abs(y).max()), 1e-12)) ** 2
    middle = float((weight * x).sum() / weight.sum())
    mean = float((weight * y).sum() / weight.sum())
    spread = float((weight * (x - middle) ** 2).sum())
    slope = float((weight * (x - middle) * (y - mean)).sum() / spread)
    freedom = len(points) - 2
    excess = float((weight * (y - mean - slope * (x - middle)) ** 2).sum()) / freedom
    half = t_quantile(ALPHA / 2, freedom) * math.sqrt(max(1.0, excess) / spread)
    return Trend(mean, slope, slope - half, slope + half, len(points))


def trend_sentence(cells: Sequence[CellEstimate], arm: str, axis: str) -> str:
    """Whether the gap is a number of ms or a share of the step."""
    points = gaps(cells, arm)
    found = trend(points)
    base = cells[0].record.plan.baseline
    if found is None:
        return (
            f"The trend of {arm} against {base} needs at least three sizes with steps of both; there are {len(points)}."
        )
    ms = [1e3 * gap for _, gap, _ in points]
    word = "slower" if found.mean > 0 else "faster"
    if found.is_constant:
        return (
            f"{arm} is {abs(1e3 * found.mean):.2g} ms per step {word} than {base} at every {axis} alike (from "
            f"{min(ms):+.2g} to {max(ms):+.2g} ms, no trend): in percent the gap shrinks only because steps grow."
        )
    direction = "grows" if found.slope * found.mean > 0 else "shrinks"
    return (
        f"The gap of {arm} against {base} {direction} with {axis}: {1e3 * found.slope:+.2g} ms per step and unit "
        f"({1e3 * found.slope_low:+.2g} to {1e3 * found.slope_high:+.2g}), from {ms[0]:+.2g} to {ms[-1]:+.2g} ms."
    )


# ------------------------------------------------------------------ cliffs


@dataclasses.dataclass(frozen=True)
class Cliff:
    """Where the throughput of an arm falls from one size to the next."""

    arm: str
    before: str
    after: str
    fall: float
    causes: tuple[str, ...]


def cliffs(cells: Sequence[CellEstimate]) -> list[Cliff]:
    """Falls of throughput by more than ``CLIFF`` between neighbours, each with the signals that changed with it."""
    found = []
    for one, other in itertools.pairwise(cells):
        for label in one.arms:
            if label not in other.arms:
                continue
            before, after = (cell.unit[1] / cell.arms[label].seconds for cell in (one, other))
            if after < (1 - CLIFF) * before:
                found.append(
                    Cliff(
                        label,
                        one.record.plan.label,
                        other.record.plan.label,
                        1 - after / before,
                        tuple(_causes(signals(one, label), signals(other, label))),
                    )
                )
    return found


def signals(cell: CellEstimate, label: str) -> dict[str, float]:
    """The side effects of a step besides computing, per thousand positions or samples where it grows with them."""
    timed = cell.record.timed(label)
    work = max(1e-9, cell.unit[1] / 1000)
    count = max(1, len(timed))
    shares = [block["share"] for block in cell.record.blocks.values() if "share" in block]
    wall = math.fsum(share["wall"] for share in shares) or 1.0
    return {
        MINOR: math.fsum(s.seconds.get(MINOR, 0.0) for s in timed) / count / work,
        MAJOR: math.fsum(s.seconds.get(MAJOR, 0.0) for s in timed) / count,
        "cpu share": cell.arms[label].cpu / max(1e-12, cell.arms[label].whole),
        "others": math.fsum((s["others"] or 0.0) + (s["stolen"] or 0.0) for s in shares) / wall,
    }


def _causes(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """The likely causes, most direct first."""
    found = []
    if after[MAJOR] >= 1.0 and after[MAJOR] > 2 * before[MAJOR]:
        found.append(f"pages were read from disk ({after[MAJOR]:.0f} major faults per step): memory is full")
    if after[MINOR] > 2 * before[MINOR] + 1:
        found.append(
            f"the allocator took memory anew ({after[MINOR]:.3g} page faults per thousand positions, "
            f"{before[MINOR]:.3g} before): blocks grew beyond what it keeps"
        )
    if after["others"] > before["others"] + 0.25:
        found.append(f"other work took {after['others']:.1f} processors meanwhile, {before['others']:.1f} before")
    if after["cpu share"] < 0.8 * before["cpu share"]:
        found.append("the process waited more than before")
    return found or ["no signal says why: neither page faults nor other work; cache misses are not read"]


def cliff_sentence(cells: Sequence[CellEstimate], axis: str) -> list[str]:
    found = cliffs(cells)
    if not found:
        return [f"No throughput cliff: from one {axis} to the next no arm loses more than {100 * CLIFF:.0f} %."]
    return [
        f"{cliff.arm} falls off a cliff from {cliff.before} to {cliff.after}: {100 * cliff.fall:.1f} % fewer per "
        f"second; {'; '.join(cliff.causes)}."
        for cliff in found
    ]
