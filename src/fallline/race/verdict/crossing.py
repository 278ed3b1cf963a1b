"""When a learning curve crossed its target: between two evaluations, on a smoothed curve.

Evaluations come at fixed steps, and their values are noisy.  The step of the first evaluation that meets the target is
late by half an interval on average, the same number of steps for all, which makes contestants look more alike than
they are; and one lucky evaluation is a whole interval.  So the curve is smoothed, and the crossing interpolated.

* Smoothed: the mean of three evaluations.  A trial ends at its target, so the last evaluation has no later one; there
  the smoothed curve goes on along the least-squares line through the last three, on which their mean lies too.
  Nothing after the evaluation that meets the target is used: a trial that went on has the same time as one that ended.
* The time lies after the evaluation before, and not after the one that met the target.  A smoothed curve may say
  otherwise by a little, but then ending a study's slower trials at an evaluation could lose something: a trial that has
  not met the target at an evaluation must be later than one that has.
* Of two evaluations there is a line through both.  Where the first one meets the target, the curve begins at the
  untrained model's value; that is far above, so it takes no part in a mean.
* Values are interpolated as they are, not as logarithms: metrics may be 0 or negative, and within one interval the two
  differ by less than the noise.  Values that are not numbers are passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from fallline.workloads.workload import LOWER

Point = tuple[float, float | None]
"""A step and the metric there; None where it was not a number."""
SMOOTHED_OVER = 3


def crossing(points: Sequence[Point], target: float, direction: str, untrained: float | None = None) -> float | None:
    """The step at which the curve crossed the target; None if no evaluation met it.

    >>> crossing([(10, 5.0), (20, 4.0), (30, 3.0), (40, 2.0)], 2.5, "lower")
    35.0
    >>> crossing([(10, 0.2)], 0.1, "higher", untrained=0.0)
    5.0
    """
    sign = 1.0 if direction == LOWER else -1.0
    met = next((at for at, (_, v) in enumerate(points) if v is not None and sign * (v - target) <= 0.0), None)
    if met is None:
        return None
    last = float(points[met][0])
    earliest = float(points[met - 1][0]) if met else 0.0
    known = [(step, value) for step, value in points[: met + 1] if value is not None][-SMOOTHED_OVER:]
    if len(known) == 1:
        if untrained is None or met > 0:
            return last
        known = [(0.0, untrained), *known]
    steps, values = np.array(known, dtype=np.float64).T
    slope = np.polyfit(steps, sign * values, 1)[0]
    if slope >= 0.0:  # no line through these points comes down to the target
        return last
    found = steps.mean() + (sign * target - (sign * values).mean()) / slope
    return float(np.clip(found, earliest, last))


@dataclasses.dataclass(frozen=True)
class Reached:
    """When a trial crossed its target."""

    steps: float
    seconds: float
    """Seconds of training, on the clock of the process that ran it."""


def reached(
    steps_to_target: int,
    curve: Sequence[tuple[int, float | None, float]],
    target: float | None,
    direction: str,
    untrained: float | None,
) -> Reached:
    """How a trial reached the target at its evaluation after ``steps_to_target``; the curve has step, value and
    seconds."""
    until = [(step, value, seconds) for step, value, seconds in curve if step <= steps_to_target]
    points = [(float(step), value) for step, value, _ in until]
    found = None if target is None else crossing(points, target, direction, untrained)
    steps = float(steps_to_target) if found is None else found
    at = [0.0, *(float(step) for step, _, _ in until)]
    return Reached(steps, float(np.interp(steps, at, [0.0, *(seconds for _, _, seconds in until)])))
