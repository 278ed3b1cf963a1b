"""The settings that a contestant raced with, or that won where it was tuned, and what other rates cost."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fallline.race.contestants import Contestant
from fallline.race.plan import BUDGET
from fallline.race.results import Row
from fallline.race.verdict.raced import Raced
from fallline.training.snippet import code_of, settings_text
from fallline.workloads.workload import LOWER

NEAR = math.sqrt(2.0)
"""Rates within this factor of one count as this one."""
FEWEST_TRIALS = 2
"""A rate needs so many trials before its cost is told."""


@dataclasses.dataclass(frozen=True)
class RateCost:
    """How much longer trials with another rate took, by medians."""

    factor: float
    """The ratio of the two rates."""
    gap: float
    """The logarithm of the ratio of times."""
    at_least: bool
    """Whether the median trial did not reach the target: it would have taken longer than it ran."""
    trials: int


@dataclasses.dataclass(frozen=True)
class Setting:
    """One contestant's."""

    contestant: str
    optimizer: str
    schedule: str
    averaging: str | None
    point: Mapping[str, Any]
    """The one that it raced with; where it was tuned, the one that won most studies, the fastest of them if several."""
    steps: int | None
    """The length of its trials, which its schedule counted on."""
    text: str
    code: str | None
    """Lines to paste; None for a class from a user's file."""
    tuned: bool
    won: int
    """Studies in which it was the fastest trial."""
    studies: int
    """Studies that had a fastest trial: one that reached the target, or in an equal-time race gave a value."""
    rates: tuple[float, float] | None
    """The least and the largest rate of the fastest trials, where the rate was tuned."""
    rate_costs: tuple[RateCost, ...]

    @property
    def sentence(self) -> str | None:
        """How often the setting won, and what a smaller or larger rate cost; None where nothing was tuned."""
        if not self.tuned or not self.won:
            return None
        head = f"Settings: the fastest trial of {self.won} of {self.studies} studies"
        if self.rates is not None and self.rates[0] < self.rates[1]:
            head += f"; fastest trials had an lr from {self.rates[0]:.2g} to {self.rates[1]:.2g}"
        costs = [_cost(cost) for cost in self.rate_costs]
        return f"{head}.{' ' + ' '.join(costs) if costs else ''}"


def _cost(cost: RateCost) -> str:
    size = "A twice as large lr" if cost.factor > 1 else "A half as large lr"
    percent = 100 * math.expm1(abs(cost.gap))
    if cost.gap < 0:
        percent = -100 * math.expm1(cost.gap)
    least = "at least " if cost.at_least else ""
    return f"{size} took {least}{percent:.0f} % {'more' if cost.gap >= 0 else 'less'} ({cost.trials} trials)."


def settings_of(
    contestants: Iterable[Contestant],
    rows: Sequence[Row],
    measure: Callable[[Row], float],
    *,
    tuned: bool,
    timed: bool,
) -> dict[str, Setting]:
    """``measure`` is what a study's trials are compared by: less is better, a miss is ∞.  ``timed``: it is steps."""
    found = {}
    for contestant in contestants:
        own = [row for row in rows if row.contestant == contestant.name and row.status is not None]
        searched = tuned and len({_key(row.point) for row in own}) > 1
        winners = _winners(own, measure)
        row = _chosen(winners, measure) if winners else next(iter(own), None)
        point = contestant.one_setting() if row is None else row.point
        steps = None if row is None else row.max_steps
        rates = [r.point["lr"] for r in winners if _has_rate(r.point)] if searched else []
        found[contestant.name] = Setting(
            contestant.name,
            contestant.optimizer,
            contestant.schedule,
            contestant.averaging,
            point=point,
            steps=steps,
            text=settings_text(contestant, point),
            code=None if steps is None else code_of(contestant, point, steps),
            tuned=searched,
            won=sum(_key(winner.point) == _key(point) for winner in winners),
            studies=len(winners),
            rates=(min(rates), max(rates)) if rates else None,
            rate_costs=rate_costs(own, measure, point) if searched and timed else (),
        )
    return found


def compared_by(raced: Raced) -> Callable[[Row], float]:
    """The measure of a study's trials, less is better: steps to target, or the metric at the end of an equal time."""
    if raced.rules.ruleset != BUDGET:
        return lambda row: raced.crossed[row.id].steps

    def final(row: Row) -> float:
        sign = 1.0 if raced.workloads[row.workload]["facts"]["direction"] == LOWER else -1.0
        last = raced.curves.get(row.id, ())[-1:]
        value = last[0][1] if last and last[0][0] == row.max_steps else None
        return math.inf if value is None else sign * value

    return final


def _winners(rows: Sequence[Row], measure: Callable[[Row], float]) -> list[Row]:
    """The fastest trial of every study that has one."""
    studies: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        studies[row.workload, row.study].append(row)
    best = [min(trials, key=measure) for trials in studies.values()]
    return [row for row in best if math.isfinite(measure(row))]


def _chosen(winners: Sequence[Row], measure: Callable[[Row], float]) -> Row:
    """That of the point which won most often; among equals the fastest beside the others on its workload."""
    typical = {
        workload: statistics.median(measure(row) for row in winners if row.workload == workload)
        for workload in {row.workload for row in winners}
    }
    times = [_key(row.point) for row in winners]
    return min(
        winners,
        key=lambda row: (-times.count(_key(row.point)), measure(row) - typical[row.workload], row.workload, row.study),
    )


def rate_costs(rows: Sequence[Row], measure: Callable[[Row], float], point: Mapping[str, Any]) -> tuple[RateCost, ...]:
    """Trials of about this rate against those of about twice and half of it, whatever else was drawn for them.

    A trial that did not reach the target counts as long as it ran.  On one workload alone: times of others differ.
    """
    if not _has_rate(point) or len({row.workload for row in rows}) != 1:
        return ()
    rated = [row for row in rows if _has_rate(row.point)]

    def median(rate: float) -> tuple[float, bool, int] | None:
        near = [row for row in rated if rate / NEAR <= row.point["lr"] < rate * NEAR and row.steps]
        if len(near) < FEWEST_TRIALS:
            return None
        times = sorted((min(measure(row), float(row.steps or 0)), math.isinf(measure(row))) for row in near)
        missed = any(open_end for _, open_end in times[: len(times) // 2 + 1])
        return statistics.median(time for time, _ in times), missed, len(near)

    here = median(point["lr"])
    if here is None or here[1] or here[0] <= 0.0:
        return ()
    found = []
    for factor in (2.0, 0.5):
        there = median(factor * point["lr"])
        if there is not None and there[0] > 0.0 and not (there[1] and there[0] < here[0]):
            found.append(RateCost(factor, math.log(there[0] / here[0]), there[1], there[2]))
    return tuple(found)


def _has_rate(point: Mapping[str, Any]) -> bool:
    rate = point.get("lr")
    return isinstance(rate, int | float) and rate > 0.0


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True)
