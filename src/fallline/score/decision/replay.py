"""A whole race by the rule, look after look, from studies that are there already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from fallline.score.decision.evidence import Evidence, Times
from fallline.score.decision.rule import Look, take_look
from fallline.score.decision.schedule import LEVEL

EvidenceAt = Callable[[Mapping[str, int]], Evidence]
"""Contestant → how many of its studies have been run; gives what these say."""


def replay(
    evidence_at: EvidenceAt,
    names: Sequence[str],
    sizes: Sequence[int],
    *,
    within: float = 0.05,
    until: str | None = None,
    level: float = LEVEL,
) -> list[Look]:
    """Looks at complete rounds of so many studies, until the race is decided or the studies are used up."""
    looks: list[Look] = []
    run = dict.fromkeys(names, 0)
    for number, size in enumerate(sizes, 1):
        out = looks[-1].out if looks else {}
        run = {name: run[name] if name in out else size for name in names}
        looks.append(take_look(evidence_at(run), number=number, out=out, within=within, until=until, level=level))
        if looks[-1].decided is not None:
            break
    return looks


def of_times(times: Times) -> EvidenceAt:
    """The evidence in the first studies of a table that holds all of them."""

    def at(run: Mapping[str, int]) -> Times:
        return dataclasses.replace(times, values={name: times.values[name][: run[name]] for name in run})

    return at
