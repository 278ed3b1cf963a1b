"""The cost of other rates, from the trials in which a search found the rate of a contestant."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallline.race.plan import SEARCH
from fallline.race.verdict.crossing import crossing
from fallline.race.verdict.raced import Raced
from fallline.score.leaderboard import listed

if TYPE_CHECKING:
    from fallline.race.results import Results, Row

RATE = "lr"


@dataclasses.dataclass(frozen=True)
class OtherRate:
    """A rate beside the one that was chosen, in one trial."""

    rate: float
    gap: float
    """The logarithm of the ratio of its steps to those of the chosen rate."""
    at_least: bool
    """Whether the trial ended before its target."""


def sentence(chosen: float, others: Sequence[OtherRate]) -> str | None:
    """Those of the next smaller and the next larger rate; None where there is none."""
    if not others:
        return None
    told = listed([f"{other.rate:.2g} {_size(other)}" for other in others])
    return f"In the search an lr of {chosen:.2g} was the fastest; beside it, in one trial each: {told}."


def _size(other: OtherRate) -> str:
    percent = 100 * math.expm1(abs(other.gap))
    return f"took {'at least ' if other.at_least else ''}{percent:.0f} % {'more' if other.gap >= 0.0 else 'less'}"


def other_rates(results: Results, raced: Raced) -> dict[str, tuple[OtherRate, ...]]:
    """Contestant → the rates next to its own; of a race on one workload, where only rates were searched."""
    if not raced.rules.search or len(raced.workloads) != 1:
        return {}
    curves = results.curves(SEARCH)
    (about,) = raced.workloads.values()
    target, direction, untrained = about["target"], about["facts"]["direction"], about["untrained"]
    if target is None:
        return {}

    def steps(row: Row) -> tuple[float, bool]:
        points = [(float(step), value) for step, value, _ in curves.get(row.id, ())]
        found = crossing(points, target, direction, untrained)
        return (float(row.steps or 0), True) if found is None else (found, False)

    rates = {row.contestant: row.point[RATE] for row in raced.rows if RATE in row.point}
    found = {}
    for name, rate in rates.items():
        rows = [row for row in results.rows(SEARCH) if row.contestant == name and RATE in row.point and row.steps]
        found[name] = _next_to(rate, [(row.point[RATE], *steps(row)) for row in rows])
    return found


def _next_to(rate: float, tried: Sequence[tuple[float, float, bool]]) -> tuple[OtherRate, ...]:
    """``tried`` has a rate, the steps, and whether these were not enough."""
    own = next((steps for tried_rate, steps, missed in tried if tried_rate == rate and not missed), None)
    if own is None:
        return ()
    smaller = max((one for one in tried if one[0] < rate), default=None)
    larger = min((one for one in tried if one[0] > rate), default=None)
    beside = [one for one in (smaller, larger) if one is not None and not (one[2] and one[1] < own)]
    return tuple(OtherRate(other, math.log(steps / own), missed) for other, steps, missed in beside if steps > 0.0)
