"""Which studies a round adds.

A round brings everybody in contention to the studies of the next look.  Whoever joined later catches up first, from
look to look, while the others wait: it is compared on the studies that both have run, so it needs three.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from fallline.score.decision.schedule import next_studies


@dataclasses.dataclass(frozen=True)
class Round:
    """How many studies each contestant has when it is over; those who left keep theirs."""

    studies: Mapping[str, int]

    @property
    def longest(self) -> int:
        return max(self.studies.values(), default=0)


def first_round(names: Collection[str]) -> Round:
    return next_round(dict.fromkeys(names, 0), out=())


def next_round(run: Mapping[str, int], out: Collection[str]) -> Round:
    """After so many studies of each.

    >>> next_round({"a": 4, "b": 4, "slow": 3}, out=["slow"]).studies
    {'a': 5, 'b': 5, 'slow': 3}
    >>> next_round({"a": 6, "joined": 0}, out=[]).studies, next_round({"a": 6, "joined": 5}, out=[]).studies
    ({'a': 6, 'joined': 3}, {'a': 6, 'joined': 6})
    """
    racing = [name for name in run if name not in out]
    counts = [run[name] for name in racing]
    if not counts:
        return Round(dict(run))
    fewest, most = min(counts), max(counts)
    goal = next_studies(fewest) if fewest == most else min(most, next_studies(fewest))
    return Round({name: max(count, goal) if name in racing else count for name, count in run.items()})
