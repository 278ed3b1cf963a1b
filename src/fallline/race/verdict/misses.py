"""Studies that did not reach their target: how close they came, and which could not be trained at all."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.engine.messages import CRASHED, FAILED, OUT_OF_MEMORY
from fallline.race.results import Row
from fallline.workloads.workload import LOWER

NOT_TRAINED = frozenset([CRASHED, FAILED, OUT_OF_MEMORY])
"""Ends of trials that could not be trained."""

Curves = Mapping[int, Sequence[tuple[int, float | None, float]]]
"""Trial → its evaluations: step, value, seconds of training."""


@dataclasses.dataclass(frozen=True)
class Miss:
    """The studies of a contestant on a workload in which no trial reached the target."""

    contestant: str
    workload: str
    metric: str
    direction: str
    target: float | None
    studies: int
    """All that have ended."""
    missed: int
    crashed: int
    """Those in which no trial could be trained to its end; not among the missed."""
    best: float | None
    """The best value of a missed study; None where no value was a number."""
    step: int | None
    """The step of that value."""

    @property
    def sentence(self) -> str | None:
        """None where there is no value to tell: how trials crashed, or gave no number, is told apart."""
        if not self.missed or self.target is None or self.best is None:
            return None
        of = f"{self.contestant} missed the target on {self.workload} in {self.missed} of {self.studies} studies"
        return f"{of}: best {self.metric} {self.best:.4g} at step {self.step}; target {self.target:.4g}"


def misses(rows: Sequence[Row], curves: Curves, workloads: Mapping[str, Mapping[str, Any]]) -> tuple[Miss, ...]:
    """A row for every contestant and workload with a study that has ended and reached nothing."""
    studies: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        studies[row.contestant, row.workload, row.study].append(row)
    cells: dict[tuple[str, str], list[list[Row]]] = defaultdict(list)
    for (contestant, workload, _), trials in studies.items():
        if all(row.status is not None for row in trials):
            cells[contestant, workload].append(trials)
    found = []
    for (contestant, workload), ended in cells.items():
        unreached = [trials for trials in ended if all(row.steps_to_target is None for row in trials)]
        if not unreached:
            continue
        missed = [trials for trials in unreached if any(row.status not in NOT_TRAINED for row in trials)]
        about = workloads[workload]
        facts = about["facts"]
        best, step = _best(missed, curves, facts["direction"])
        found.append(
            Miss(
                contestant,
                workload,
                facts["metric"],
                facts["direction"],
                about["target"],
                studies=len(ended),
                missed=len(missed),
                crashed=len(unreached) - len(missed),
                best=best,
                step=step,
            )
        )
    return tuple(found)


def _best(studies: Sequence[Sequence[Row]], curves: Curves, direction: str) -> tuple[float | None, int | None]:
    sign = 1.0 if direction == LOWER else -1.0
    points = [point for trials in studies for row in trials for point in curves.get(row.id, ())]
    known = [(sign * value, step) for step, value, _ in points if value is not None]
    if not known:
        return None, None
    value, step = min(known)
    return sign * value, step


def standing(found: Sequence[Miss], contestants: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Where contestants with equal scores stand: fewer crashed studies first, then whoever came closer to targets.

    Closeness is the mean place, over the workloads that somebody missed, of the best value there; whoever missed
    nothing comes first.
    """
    crashed = {name: sum(miss.crashed for miss in found if miss.contestant == name) for name in contestants}
    places: dict[str, list[float]] = {name: [] for name in contestants}
    for workload in dict.fromkeys(miss.workload for miss in found):
        here = {miss.contestant: miss for miss in found if miss.workload == workload}
        ordered = sorted({_distance(miss) for miss in here.values()})
        for name in contestants:
            places[name].append(1.0 + ordered.index(_distance(here[name])) if name in here else 0.0)
    return {name: (float(crashed[name]), sum(places[name]) / max(1, len(places[name]))) for name in contestants}


def _distance(miss: Miss) -> float:
    if miss.best is None:
        return math.inf
    return miss.best if miss.direction == LOWER else -miss.best
