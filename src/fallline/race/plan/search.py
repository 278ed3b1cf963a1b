"""The settings that each contestant tries before the race, where the race finds them itself.

Everybody tries as many, with the same first weights and batches: the middles of equal parts of its range of learning
rates, the middle one first, because a trial that reaches the target ends the slower ones.  If the best lies at an end
of a documented range, the next one beyond is tried too: a range made for small models may not hold the best rate of a
large one.  A range that the user gave is a limit.

The race then uses other seeds, so that luck in the search is no advantage in the race.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.contestants import halton
from fallline.race.contestants.contestant import Contestant
from fallline.race.contestants.spaces import TUNING
from fallline.race.plan.entries import Entry
from fallline.race.plan.rules import SEARCH, Rules
from fallline.race.plan.trials import Trial, draws_of
from fallline.workloads.seeding import mixed

RATE = "lr"
BEYOND = 3
"""The most settings beyond a documented range."""


def with_settings(contestant: Contestant, found: Mapping[str, Any] | None) -> Contestant:
    """The contestant with the setting that was found for it, and nothing left to search; as it is without one."""
    return contestant if found is None else dataclasses.replace(contestant, settings=found, space={}, points=())


def rate_of(space: Mapping[str, halton.Dimension]) -> str | None:
    """The setting that a search varies: the learning rate, or the first of a method that finds its rate itself."""
    return RATE if RATE in space else next(iter(space), None)


def search_trials(entry: Entry, contestants: Sequence[Contestant], rules: Rules) -> list[Trial]:
    """All of a workload, the first setting of everybody first."""
    points = {c.name: _points(c, entry, rules) for c in contestants}
    return [
        _trial(entry, contestant, rules, number, points[contestant.name][number - 1])
        for number in range(1, max(map(len, points.values()), default=0) + 1)
        for contestant in contestants
        if number <= len(points[contestant.name])
    ]


def one_beyond(
    entry: Entry, contestant: Contestant, rules: Rules, tried: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> Trial | None:
    """One more setting, if the best of those tried lies at an end of a documented range."""
    name = rate_of(contestant.space)
    if name is None or len(contestant.space) > 1 or len(tried) >= rules.search + BEYOND:
        return None
    dimension = contestant.space[name]
    documented = TUNING[contestant.optimizer].space.get(name) if contestant.optimizer in TUNING else None
    if dimension != documented or halton.with_scaling(dimension).get("scaling") != "log":
        return None
    factor = (dimension["max"] / dimension["min"]) ** (1 / rules.search)
    rates = [point[name] for point in tried]
    if best[name] == min(rates):
        value = best[name] / factor
    elif best[name] == max(rates):
        value = best[name] * factor
    else:
        return None
    return _trial(entry, contestant, rules, len(tried) + 1, {**contestant.settings, name: _rounded(value)})


def _points(contestant: Contestant, entry: Entry, rules: Rules) -> list[dict[str, Any]]:
    if not contestant.points and len(contestant.space) == 1:
        ((name, dimension),) = contestant.space.items()
        return [{**contestant.settings, name: value} for value in middles(dimension, rules.search)]
    if not contestant.points and not contestant.space:
        return []
    seed = 1 + mixed(rules.seed, "search points", entry.draws, draws_of(contestant)) % (2**31 - 1)
    return contestant.trial_points(trials=rules.search, study=0, seed=seed, tuned=True)


def middles(dimension: halton.Dimension, count: int) -> list[Any]:
    """The middles of so many equal parts of a range, from the middle one outwards; all values of a list.

    >>> middles({"min": 1e-4, "max": 1e-1, "scaling": "log"}, 3)
    [0.0032, 0.00032, 0.032]
    """
    if "feasible_points" in dimension:
        return list(dimension["feasible_points"])
    places = sorted(((at + 0.5) / count for at in range(count)), key=lambda u: (abs(round(u - 0.5, 9)), u))
    return [_rounded(halton.value(dimension, u)) for u in places]


def _rounded(value: float) -> float:
    """To two digits: rates are a factor of about two apart, and people copy them."""
    return float(f"{value:.2g}")


def _trial(entry: Entry, contestant: Contestant, rules: Rules, number: int, point: Mapping[str, Any]) -> Trial:
    seed = mixed(rules.seed, "search", entry.draws, draws_of(contestant)) % 2**31
    return Trial(entry.name, contestant.name, 0, number, seed, point, SEARCH)
