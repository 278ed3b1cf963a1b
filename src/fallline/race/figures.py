"""The figures of a race: learning curves against steps and against seconds, with bands and the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fallline.document.figures import Axis, Chart, Figure, Mark, Series
from fallline.document.numbers import counted
from fallline.race.verdict.curves import FEW_STUDIES, Curve

if TYPE_CHECKING:
    from fallline.race.verdict.summary import Summary

OPENING = 0.15
"""The share of a curve before which its values do not set the vertical axis: an untrained model is far off."""
MARGIN = 0.06
WIDE = 4.0
"""A vertical axis whose ends differ by more than this factor is logarithmic."""


def curve_figures(summary: Summary) -> list[Figure]:
    """Two charts for each workload that has curves, one where steps were not measured."""
    order = [row.contestant for row in summary.board.rows]
    found: list[Figure] = []
    for workload, about in summary.workloads.items():
        curves = [
            curve
            for name in order
            for curve in summary.curves
            if (curve.contestant, curve.workload) == (name, workload)
        ]
        if not curves:
            continue
        found.append(_chart(workload, about, curves, "steps", "training steps", lambda curve: curve.steps))
        timed = [curve for curve in curves if curve.seconds is not None]
        if timed:
            label = "seconds of training (steps × seconds per step)"
            found.append(_chart(workload, about, timed, "seconds", label, lambda curve: curve.seconds or ()))
    return found


def _chart(
    workload: str,
    about: Mapping[str, Any],
    curves: Sequence[Curve],
    axis: str,
    label: str,
    places: Callable[[Curve], Sequence[float]],
) -> Chart:
    metric, target = about["facts"]["metric"], about["target"]
    most = max(curve.studies for curve in curves)
    band = "band: their range" if most < FEW_STUDIES else "band: the middle half of them"
    return Chart(
        name=f"curves_{re.sub(r'[^A-Za-z0-9_.-]+', '_', workload)}_{axis}",
        title=f"{workload}: {metric} against {axis}",
        x=Axis(label, 0.0, 1.02 * max(places(curve)[-1] for curve in curves)),
        y=_vertical(metric, curves, target),
        series=[
            Series(
                _legend(curve, places(curve)[-1], axis),
                places(curve),
                curve.median,
                curve.low,
                curve.high,
                ends=curve.reached,
            )
            for curve in curves
        ],
        caption=f"median of {counted(most, 'study', 'studies')}, {band}" if most > 1 else "one study",
        marks=() if target is None else (Mark(target, f"target {target:.4g}"),),
        place=f"{workload}: {metric}",
        view=f"by {axis}",
    )


def _legend(curve: Curve, end: float, axis: str) -> str:
    if not curve.reached:
        return curve.contestant
    return f"{curve.contestant}  {end:#.3g} s" if axis == "seconds" else f"{curve.contestant}  {end:.0f} steps"


def _vertical(metric: str, curves: Sequence[Curve], target: float | None) -> Axis:
    """From the best value to what models have after their opening; logarithmic where that is a long way."""
    values = [] if target is None else [target]
    for curve in curves:
        opening = OPENING * curve.steps[-1]
        seen = [at for at, step in enumerate(curve.steps) if step >= opening]
        values += [curve.median[at] for at in seen]
        values += [edge[at] for edge in (curve.low, curve.high) for at in seen[len(seen) // 2 :]]
    low, high = min(values), max(values)
    if low > 0.0 and high / low > WIDE:
        room = (high / low) ** MARGIN
        return Axis(metric, low / room, high * room, log=True)
    room = MARGIN * (high - low) or 0.01 * abs(high) or 1.0
    return Axis(metric, low - room, high + room)
