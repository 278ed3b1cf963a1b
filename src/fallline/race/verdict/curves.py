"""Learning curves: the metric of every contestant over its steps and seconds, as median and band over studies.

A study's curve is that of the trial that counts: the first to the target, or else the one with the best value.  A trial
ends at its target, and those that are left are the slow ones; so a study that has ended there stays at the target's
value.  The median then meets the target at the median time, and the curve ends there.  A study whose trial ended
otherwise, because it diverged or was too late, counts as worse than all others from then on.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fallline.race.results import Row
from fallline.race.verdict.crossing import Reached
from fallline.race.verdict.misses import Curves
from fallline.workloads.workload import LOWER

FEW_STUDIES = 5
"""The band of fewer studies is their whole range; of more, the middle half of them."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """The learning curve of one contestant on one workload."""

    contestant: str
    workload: str
    studies: int
    steps: tuple[float, ...]
    seconds: tuple[float, ...] | None
    """On the race's clock; None where steps were not measured."""
    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    reached: bool
    """Whether its last point is the median time to the target."""


def learning_curves(
    rows: Sequence[Row],
    curves: Curves,
    crossed: Mapping[int, Reached],
    workloads: Mapping[str, Mapping[str, Any]],
    seconds: Callable[[str, str, float], float] | None,
) -> tuple[Curve, ...]:
    """``seconds`` turns steps of a contestant on a workload into seconds; None where there is no such clock."""
    studies: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.status is not None and curves.get(row.id):
            studies[row.workload, row.contestant][row.study].append(row)
    found = []
    for (workload, contestant), of_study in studies.items():
        about = workloads[workload]
        counting = [_counting(trials, curves, crossed, about) for trials in of_study.values()]
        curve = _curve(contestant, workload, counting, curves, crossed, about)
        if curve is not None and seconds is not None:
            times = tuple(seconds(workload, contestant, step) for step in curve.steps)
            curve = dataclasses.replace(curve, seconds=times if all(map(math.isfinite, times)) else None)
        if curve is not None:
            found.append(curve)
    return tuple(found)


def _sign(about: Mapping[str, Any]) -> float:
    """Values times it are better the smaller they are."""
    return 1.0 if about["facts"]["direction"] == LOWER else -1.0


def _counting(trials: Sequence[Row], curves: Curves, crossed: Mapping[int, Reached], about: Mapping[str, Any]) -> Row:
    def best(row: Row) -> float:
        return min((_sign(about) * value for _, value, _ in curves[row.id] if value is not None), default=math.inf)

    return min(trials, key=lambda row: (crossed[row.id].steps, best(row), row.number))


def _curve(
    contestant: str,
    workload: str,
    trials: Sequence[Row],
    curves: Curves,
    crossed: Mapping[int, Reached],
    about: Mapping[str, Any],
) -> Curve | None:
    sign, target = _sign(about), about["target"]
    steps = sorted({step for row in trials for step, _, _ in curves[row.id]})
    table = _by_study(trials, curves, steps, sign, target)
    end = float(np.median([crossed[row.id].steps for row in trials]))
    going_on = any(row.steps_to_target is not None and row.steps_to_target < curves[row.id][-1][0] for row in trials)
    reached = target is not None and math.isfinite(end) and not going_on
    bands = [(float(step), *_band(values)) for step, values in zip(steps, table.T, strict=True)]
    points = [band for band in bands if math.isfinite(band[2]) and not (reached and band[0] >= end)]
    if reached:
        # Between two evaluations the band is as at the later one, but for the median, which is at the target.
        _, low, _, high = next(band for band in bands if band[0] >= end)
        points.append((end, min(low, sign * target), sign * target, max(high, sign * target)))
    if not points:
        return None
    if about["untrained"] is not None:
        points.insert(0, (0.0, *[sign * about["untrained"]] * 3))
    at_steps, lows, medians, highs = (tuple(map(float, column)) for column in zip(*points, strict=True))
    edges = (lows, highs) if sign > 0 else (tuple(-v for v in highs), tuple(-v for v in lows))
    return Curve(
        contestant, workload, len(trials), at_steps, None, tuple(sign * v for v in medians), *edges, reached=reached
    )


def _by_study(
    trials: Sequence[Row], curves: Curves, steps: Sequence[int], sign: float, target: float | None
) -> np.ndarray:
    """Studies × steps, the smaller the better: the target's value after an end there, ∞ where there is no value."""
    table = np.full((len(trials), len(steps)), math.inf)
    for at, row in enumerate(trials):
        known = {step: value for step, value, _ in curves[row.id]}
        last = max(known)
        for place, step in enumerate(steps):
            value = known.get(step)
            if value is not None:
                table[at, place] = sign * value
            elif target is not None and row.steps_to_target == last < step:
                table[at, place] = sign * target
    return table


def _band(values: np.ndarray) -> tuple[float, float, float]:
    """The low edge, the median and the high edge; studies without a value are at no edge, though worse than all."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return (math.inf,) * 3
    few = len(values) < FEW_STUDIES
    low, high = (finite.min(), finite.max()) if few else np.quantile(finite, [0.25, 0.75])
    middle = float(np.median(values))
    return min(float(low), middle), middle, max(float(high), middle) if math.isfinite(middle) else float(high)
