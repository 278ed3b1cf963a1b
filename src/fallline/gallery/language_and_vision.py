"""AdamW's edge over SGD on language and on vision: stored races, both methods tuned alike for each task.

The edge in a study is SGD's steps to the target over AdamW's, with the same seeds for both.  A study that misses the
target counts with the whole budget, so that an edge with misses of SGD is at least what is shown.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.figures import Axis, Interval, Intervals
from fallline.document.numbers import counted
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stored import stored
from fallline.measure.student import t_quantile

LEVEL = 0.95
FIELDS = ("language", "vision")
NEAR, FAR = (0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5), (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Ticks of a short and of a long axis."""


@dataclasses.dataclass(frozen=True)
class Edge:
    """The mean of logarithms of ratios, with its standard error and degrees of freedom."""

    log: float
    error: float
    freedom: float

    @property
    def bounds(self) -> tuple[float, float]:
        half = t_quantile((1 - LEVEL) / 2, self.freedom) * self.error if self.error > 0.0 else 0.0
        return math.exp(self.log - half), math.exp(self.log + half)

    @property
    def ratio(self) -> float:
        return math.exp(self.log)


def exhibit(wishes: Wishes) -> Exhibit:
    known = stored("language_and_vision")
    tasks = known["tasks"]
    by_task = {name: of_task(task) for name, task in tasks.items()}
    by_field = {
        field: pooled([by_task[name] for name, task in tasks.items() if task["field"] == field]) for field in FIELDS
    }
    language, vision = (by_field[field] for field in FIELDS)
    difference = apart(language, vision)
    rows = [
        Interval(f"{name} ({task['field']})", by_task[name].ratio, *by_task[name].bounds)
        for name, task in sorted(tasks.items(), key=lambda one: FIELDS.index(one[1]["field"]))
    ]
    rows.append(Interval("language / vision", difference.ratio, *difference.bounds, strong=True))
    low = min(0.9, *(0.95 * row.low for row in rows))
    high = max(1.1, *(1.05 * row.high for row in rows))
    ticks = {tick: f"{tick:g}×" for tick in (FAR if high > 3 * low else NEAR) if low <= tick <= high}
    figure = Intervals(
        "language_and_vision", "SGD's steps to the target over AdamW's",
        Axis("ratio of steps", low, high, ticks, log=True), rows, 1.0, "no edge",
        caption=f"mean of studies, {100 * LEVEL:.0f} % intervals",
    )  # fmt: skip
    missed = misses(tasks)
    numbers = {
        "edges": {name: [edge.ratio, *edge.bounds] for name, edge in {**by_task, **by_field}.items()},
        "language_over_vision": [difference.ratio, *difference.bounds],
        "misses": missed,
    }
    source = f"stored: {known['what']}, by `{known['command']}`"
    return Exhibit([figure], caption(by_field, difference, missed, tasks), numbers, source)


def logs(task: Mapping[str, Any]) -> list[float]:
    """The logarithm of each study's ratio; a miss counts with the whole budget."""
    adamw, sgd = (
        [task["max_steps"] if steps is None else steps for steps in task["steps"][name]] for name in ("adamw", "sgd")
    )
    return [math.log(slow / fast) for fast, slow in zip(adamw, sgd, strict=True)]


def of_task(task: Mapping[str, Any]) -> Edge:
    found = logs(task)
    return Edge(statistics.fmean(found), statistics.stdev(found) / math.sqrt(len(found)), len(found) - 1)


def pooled(edges: Sequence[Edge]) -> Edge:
    """The mean of tasks, each with the same weight; degrees of freedom by Welch and Satterthwaite."""
    share = 1 / len(edges)
    return _combined(sum(share * edge.log for edge in edges), [(share, edge) for edge in edges])


def apart(first: Edge, second: Edge) -> Edge:
    return _combined(first.log - second.log, [(1.0, first), (1.0, second)])


def _combined(log: float, parts: Sequence[tuple[float, Edge]]) -> Edge:
    variances = [(weight * edge.error) ** 2 for weight, edge in parts]
    total = sum(variances)
    if total == 0.0:
        return Edge(log, 0.0, sum(edge.freedom for _, edge in parts))
    freedom = total**2 / sum(own**2 / edge.freedom for own, (_, edge) in zip(variances, parts, strict=True))
    return Edge(log, math.sqrt(total), freedom)


def misses(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    return {
        name: {method: sum(steps is None for steps in found) for method, found in task["steps"].items()}
        for name, task in tasks.items()
    }


def caption(
    by_field: Mapping[str, Edge],
    difference: Edge,
    missed: Mapping[str, Mapping[str, int]],
    tasks: Mapping[str, Mapping[str, Any]],
) -> str:
    shown = {
        field: f"{edge.ratio:.2f} times ({edge.bounds[0]:.2f} to {edge.bounds[1]:.2f})"
        for field, edge in by_field.items()
    }
    low, high = difference.bounds
    if low > 1.0:
        verdict = "so that the edge is larger on language"
    elif high < 1.0:
        verdict = "so that the edge is larger on vision"
    else:
        verdict = "so that these races cannot tell on which of the two it is larger"
    studies = {name: len(task["steps"]["sgd"]) for name, task in tasks.items()}
    raced = ", ".join(f"{counted(count, 'study', 'studies')} of {name}" for name, count in studies.items())
    names = {field: ", ".join(name for name, task in tasks.items() if task["field"] == field) for field in FIELDS}
    text = (
        f"SGD with Nesterov's momentum takes {shown['language']} AdamW's steps to the target on language "
        f"({names['language']}) and {shown['vision']} on vision ({names['vision']}), {difference.ratio:.2f} times as "
        f"many ({low:.2f} to {high:.2f}), {verdict}. Both are at the best of the same number of settings for each "
        f"task; {raced}."
    )
    counted_misses = [
        f"{method} in {count} of {studies[name]} on {name}"
        for name, found in missed.items()
        for method, count in found.items()
        if count
    ]
    if counted_misses:
        text += f" Targets were missed by {', '.join(counted_misses)}; a miss counts with the whole budget."
    return text
