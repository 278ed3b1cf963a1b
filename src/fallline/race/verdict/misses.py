"""Studies that did not reach their target: how close they came, and which could not be trained at all."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.engine.messages import CRASHED, FAILED, OUT_OF_MEMORY
from fallline.race.results import Row
from fallline.score.leaderboard import listed
from fallline.score.times import StudyTimes
from fallline.workloads.workload import LOWER

OFTEN = 0.25
"""A share of studies from which a choice that misses its target is no choice to take without a word."""
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


def often_missed(choice: str, found: Sequence[Miss], times: StudyTimes) -> str | None:
    """A sentence if the choice missed its target in a quarter of its studies or more, all workloads together."""
    own = [miss for miss in found if miss.contestant == choice]
    studies = sum(len(times.cell(choice, workload)) for workload in times.columns)
    failed = sum(miss.missed + miss.crashed for miss in own)
    if not studies or failed < OFTEN * studies:
        return None
    cells = [(miss.missed + miss.crashed, miss) for miss in own]
    on = (lambda miss: f" on {miss.workload}") if len(times.columns) > 1 else (lambda _: "")
    told = listed([f"in {count} of {miss.studies} studies{on(miss)}" for count, miss in cells])
    return f"But {choice} missed the target {told}: expect no better of it in your own training."


def closest(found: Sequence[Miss]) -> list[str]:
    """Where nobody reached a target: who came closest, and what would help; nothing where no value is known."""
    known = [miss for miss in found if miss.best is not None and miss.target is not None]
    if not known:
        return []
    best = min(known, key=lambda miss: (known[0].workload != miss.workload, _distance(miss)))
    on = f" on {best.workload}" if len({miss.workload for miss in found}) > 1 else ""
    return [
        f"{best.contestant} came closest{on}, {best.metric} {best.best:.4g} at step {best.step}, target "
        f"{best.target:.4g}: race --anew with a --target that can be reached, or with more --max-steps."
    ]


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
