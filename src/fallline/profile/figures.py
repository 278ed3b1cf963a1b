"""Figures of a profile, from the stored samples: loss against tokens and seconds, phases, memory against throughput."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fallline.document.figures import Axis, Bar, Chart, Figure, Part, Series, StackedBars
from fallline.profile.estimate import ArmEstimate, CellEstimate
from fallline.profile.loss_curves import loss_curve, smoothed
from fallline.profile.quantities import MB
from fallline.training.phases import BACKWARD, CURVATURE, DATA, FORWARD, STEP

FEWEST = 5
"""Steps below which there is no curve."""
MARGIN = 0.06
RISE = 1.2
"""A loss that is so many times as high as at the beginning is no guide to the axis."""
PHASES = {FORWARD: "forward", BACKWARD: "backward", STEP: "step", CURVATURE: "Hessian update", DATA: "data"}


def figures(cell: CellEstimate) -> list[Figure]:
    """The figures of one cell; those of a sweep carry its label in their names."""
    found: list[Figure] = []
    unit, per_step = cell.unit
    counted = unit.partition("/")[0]
    by_work = _losses(cell, counted, lambda arm: per_step)
    by_time = _losses(cell, "seconds", lambda arm: arm.seconds)
    found += [chart for chart in (by_work, by_time) if chart is not None]
    if any(arm.phases.get(FORWARD) for arm in cell.arms.values()):
        found.append(_phases(cell))
    frontier = _memory(cell)
    return found + ([frontier] if frontier is not None else [])


def _name(cell: CellEstimate, name: str) -> str:
    label = cell.record.plan.label.replace(" ", "-").replace("/", "-")
    return f"{name}-{label}" if label else name


def _titled(cell: CellEstimate, title: str) -> str:
    return f"{title}, {cell.record.plan.label}" if cell.record.plan.label else title


def _losses(cell: CellEstimate, along: str, per_step: Callable[[ArmEstimate], float]) -> Chart | None:
    """Training loss, a mean over repeats with their range as a band."""
    series = []
    for label, arm in cell.arms.items():
        curves = [smoothed(loss_curve(cell, label, repeat)) for repeat in range(cell.record.plan.repeats)]
        curves = [curve for curve in curves if len(curve) >= FEWEST]
        if not curves:
            continue
        steps = list(zip(*curves, strict=False))
        x = [per_step(arm) * (at + 1) for at in range(len(steps))]
        means = [math.fsum(values) / len(values) for values in steps]
        series.append(Series(label, x, means, [min(values) for values in steps], [max(values) for values in steps]))
    if not series:
        return None
    # Where an arm rises far above the beginning its values are no guide to the axis.
    most = RISE * max(one.y[0] for one in series)
    ends = [value for one in series for value in one.y if value <= most]
    low, high = min(ends), max(ends)
    room = MARGIN * (high - low or 1.0)
    return Chart(
        _name(cell, f"loss-{along}"),
        _titled(cell, f"Training loss against {along}"),
        Axis(along, 0.0, max(one.x[-1] for one in series)),
        Axis("loss", low - room, high + room),
        series,
        caption=f"means over 5 steps and {cell.record.plan.repeats} repeats; bands: their range",
    )


def _phases(cell: CellEstimate) -> StackedBars:
    bars = [
        Bar(
            label,
            [Part(name, 1e3 * arm.phases[phase]) for phase, name in PHASES.items() if arm.phases.get(phase)],
        )
        for label, arm in cell.arms.items()
    ]
    return StackedBars(
        _name(cell, "phases"),
        _titled(cell, "Phases of a step"),
        "ms",
        bars,
        caption="each arm's own phases, as measured",
        detail=True,
    )


def _memory(cell: CellEstimate) -> Chart | None:
    """Peak bytes in tensors against throughput; the frontier joins arms that nobody beats in both."""
    unit, per_step = cell.unit
    points = {
        label: (peak / MB, per_step / arm.seconds)
        for label, arm in cell.arms.items()
        if (peak := cell.record.arms[label].peak) is not None
    }
    if len(points) < 2:
        return None
    ordered = sorted(set(frontier(list(points.values()))))
    series = [Series(label, [x], [y], ends=True) for label, (x, y) in points.items()]
    if len(ordered) > 1:
        series.append(Series("frontier", [x for x, _ in ordered], [y for _, y in ordered]))
        caption = "on the frontier, nobody is faster with as little memory"
    else:  # a line needs two points
        best = " and ".join(label for label, point in points.items() if point == ordered[0])
        caption = f"nobody is faster than {best} or holds less"
    return Chart(
        _name(cell, "memory"),
        _titled(cell, f"Memory against {unit}"),
        _around("peak MB in tensors", [x for x, _ in points.values()]),
        _around(unit, [y for _, y in points.values()]),
        series,
        caption=caption,
    )


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats: less of the first and more of the second.

    >>> frontier([(1, 1), (2, 3), (3, 2), (2, 1)])
    [(1, 1), (2, 3)]
    """
    return [(x, y) for x, y in points if not any((a <= x and b >= y) and (a, b) != (x, y) for a, b in points)]


def _around(label: str, values: Sequence[float]) -> Axis:
    # An axis as narrow as noise would be labelled by offsets.
    room = max(0.1 * (max(values) - min(values)), 0.02 * abs(max(values)), 1e-9)
    return Axis(label, min(values) - room, max(values) + room)
