"""One look at a race: who is clearly slower, which one to take, and what that may cost.

At look l, with k in contention, a contestant is *out* if it is behind the choice by more than t·error, where t belongs
to the level of the look over all pairs and both directions.  Whoever is out counts no longer, so that k falls and the
others are tested again.  The *loss bound* is the most by which the choice may be slower than any of those left, at the
level over those left.  The race is decided when one is left, or when the bound is within what the user accepts.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from fallline.measure.student import t_quantile
from fallline.score.decision.evidence import Difference, Evidence
from fallline.score.decision.schedule import LEVEL, level_of, next_studies

ONE_LEFT, WITHIN, NOBODY = "one left", "within", "nobody"
LEADER = "leader"
SEARCH_LIMIT = 10_000
"""Where the search ends for how many studies would do."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """A contestant at a look; gaps are those of the evidence, so logarithms of ratios where times are compared."""

    contestant: str
    studies: int
    reached: int
    crashed: int
    out_at: int | None
    """The look at which it was found slower; None while it is in contention."""
    gap: float | None
    """How far it is behind the choice; None if that is not known."""
    error: float | None
    low: float | None
    high: float | None
    """The interval of the gap at this look's level; above 0 for one that is out at this look."""

    @property
    def racing(self) -> bool:
        return self.out_at is None


@dataclasses.dataclass(frozen=True)
class Look:
    """The findings of a look at so many studies: everything an answer is written from."""

    number: int
    studies: int
    level: float
    relative: bool
    """Whether gaps and the bound are logarithms of ratios."""
    choice: str | None
    standings: tuple[Standing, ...]
    """From the choice to those that left first."""
    bound: float | None
    """The most by which the choice may be behind the best, 0 if nobody else is left; None if nothing bounds it."""
    within: float
    """The bound that was asked for, in the same units."""
    decided: str | None
    """Why the race is decided; None if it is not."""
    either: tuple[tuple[str, str], ...]
    """Pairs that differ by less than ``within`` in both directions."""
    freedom: float | None
    """The fewest degrees of freedom of a comparison with the choice."""
    more_studies: int | None
    """Studies that would bring the bound to ``within`` if gaps and noise stay; 0 if it is, None if none would."""

    @property
    def racing(self) -> tuple[str, ...]:
        return tuple(standing.contestant for standing in self.standings if standing.racing)

    @property
    def out(self) -> dict[str, int]:
        """Contestant → the look at which it left."""
        return {s.contestant: s.out_at for s in self.standings if s.out_at is not None}

    def standing(self, contestant: str) -> Standing:
        return next(standing for standing in self.standings if standing.contestant == contestant)

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Look:
        standings = tuple(Standing(**standing) for standing in data["standings"])
        return cls(**{**data, "standings": standings, "either": tuple((a, b) for a, b in data["either"])})


def margin(within: float, relative: bool) -> float:
    """The accepted loss in the units of gaps: 5 % is ln 1.05 of a ratio, and 0.05 of a score.

    >>> round(margin(0.05, relative=True), 5), margin(0.05, relative=False)
    (0.04879, 0.05)
    """
    return math.log1p(within) if relative else within


def take_look(
    evidence: Evidence,
    *,
    number: int = 1,
    out: Mapping[str, int] | None = None,
    within: float = 0.05,
    until: str | None = None,
    level: float = LEVEL,
    choice: str | None = None,
    family: int | None = None,
) -> Look:
    """The verdict of one look.

    ``number`` counts looks from 1, ``out`` are those that left at an earlier one.  With ``until="leader"`` a bound
    within the margin does not decide: one must be left.  A ``choice`` that was made elsewhere, by another clock, is
    bounded as it stands.  With a ``family`` every statement is at the level over all pairs of so many contestants and
    both directions, so that all that could be said of any of these pairs holds together.
    """
    left = dict(out or {})
    studies = max((evidence.count(name).studies for name in evidence.names), default=0)
    racing = [name for name in evidence.names if name not in left]
    alpha = level_of(number, level)
    choice = choice or evidence.best(racing)
    if choice is None:
        standings = tuple(_standing(evidence, name, left, None, None) for name in _unranked(evidence, left))
        wanted = margin(within, evidence.relative)
        return Look(number, studies, alpha, evidence.relative, None, standings, None, wanted, NOBODY, (), None, None)
    differences = {name: evidence.difference(name, choice) for name in evidence.names if name != choice}
    tails: dict[str, float] = {}
    found = [name for name in racing if name != choice and _never_ran(evidence, name)]
    left |= dict.fromkeys(found, number)
    racing, found = [name for name in racing if name not in left], [choice]
    while found:  # whoever leaves makes the others' family smaller
        tail = _pair_tail(alpha, family or len(racing))
        found = [n for n in racing if n != choice and _is_slower(differences[n], tail)]
        for name in found:
            left[name], tails[name] = number, tail
        racing = [name for name in racing if name not in left]
    others = {name: differences[name] for name in racing if name != choice}
    wanted = margin(within, evidence.relative)
    bound = _bound(others, alpha * _share(others, family))
    decided = (
        ONE_LEFT if not others else (WITHIN if until != LEADER and bound is not None and bound <= wanted else None)
    )
    standings = tuple(
        _standing(evidence, name, left, differences.get(name), tails.get(name, tail), at_choice=name == choice)
        for name in _ranked(evidence, choice, differences, left)
    )
    known = [difference.freedom for difference in differences.values() if difference is not None]
    return Look(
        number=number,
        studies=studies,
        level=alpha,
        relative=evidence.relative,
        choice=choice,
        standings=standings,
        bound=bound,
        within=wanted,
        decided=decided,
        either=_either(evidence, racing, alpha, wanted),
        freedom=min(known, default=None),
        more_studies=_more_studies(others, number, level * _share(others, family), wanted, studies),
    )


def _pair_tail(alpha: float, contestants: int) -> float:
    """Over all pairs, and both directions of each."""
    return alpha / max(1, contestants * (contestants - 1))


def _share(others: Mapping[str, Difference | None], family: int | None) -> float:
    """The part of the level that the bound over these may use: all of it, unless others are of the family."""
    return 1.0 if family is None else _pair_tail(1.0, family) * len(others)


def _is_slower(difference: Difference | None, tail: float) -> bool:
    if difference is None:
        return False
    return difference.gap > t_quantile(tail, difference.freedom) * difference.error()


def _never_ran(evidence: Evidence, name: str) -> bool:
    """A contestant that crashed in every study cannot be taken, whatever the budget says of its time."""
    count = evidence.count(name)
    return count.crashed == count.studies > 0


def _bound(others: Mapping[str, Difference | None], alpha: float) -> float | None:
    found = 0.0
    for difference in others.values():
        if difference is None:
            return None
        found = max(found, _reach(difference, alpha / len(others)))
    return found if math.isfinite(found) else None


def _reach(difference: Difference, tail: float) -> float:
    """How far the other one may be ahead."""
    return t_quantile(tail, difference.freedom) * difference.error() - difference.gap


def _either(evidence: Evidence, racing: list[str], alpha: float, wanted: float) -> tuple[tuple[str, str], ...]:
    pairs = list(itertools.combinations(racing, 2))
    found = []
    for a, b in pairs:
        if any(evidence.count(name).reached < evidence.count(name).studies for name in (a, b)):
            continue  # how far apart two are is not known where one was not seen to its end
        difference = evidence.difference(a, b)
        if difference is None:
            continue
        reach = t_quantile(alpha / len(pairs), difference.freedom) * difference.error()
        if abs(difference.gap) + reach <= wanted:
            found.append((a, b))
    return tuple(found)


def _more_studies(
    others: Mapping[str, Difference | None], number: int, level: float, wanted: float, studies: int
) -> int | None:
    """By the looks to come, each stricter than the one before."""
    if any(difference is None for difference in others.values()):
        return None
    known = [difference for difference in others.values() if difference is not None]
    done, look = studies, number
    while done <= SEARCH_LIMIT:
        tail = level_of(look, level) / max(1, len(known))
        short = [
            d for d in known if t_quantile(tail, d.freedom_with(done)) * d.error(max(done, d.studies)) - d.gap > wanted
        ]
        if not short:
            return done - studies
        if any(t_quantile(tail, math.inf) * math.sqrt(d.fixed) - d.gap > wanted for d in short):
            return None  # levels fall, so what step times forbid now they forbid later
        done, look = next_studies(done), look + 1
    return None


# ------------------------------------------------------------------ standings


def _ranked(
    evidence: Evidence, choice: str, differences: Mapping[str, Difference | None], left: Mapping[str, int]
) -> list[str]:
    """The choice, those in contention by their gaps, then those that left, the last one first.

    Among equals a miss is below a target that was reached, and a crash below a miss.
    """

    def place(name: str) -> tuple[float, ...]:
        if name == choice:
            return (0,)
        count, difference = evidence.count(name), differences[name]
        gap = math.inf if difference is None else difference.gap
        never = count.reached == 0
        return (
            1,
            name in left,
            -left.get(name, 0),
            never,
            never and count.crashed == count.studies,
            gap,
            count.crashed,
        )

    return sorted(evidence.names, key=place)


def _unranked(evidence: Evidence, left: Mapping[str, int]) -> list[str]:
    return sorted(evidence.names, key=lambda name: (name in left, -left.get(name, 0), evidence.count(name).crashed))


def _standing(
    evidence: Evidence,
    name: str,
    left: Mapping[str, int],
    difference: Difference | None,
    tail: float | None,
    *,
    at_choice: bool = False,
) -> Standing:
    count = evidence.count(name)
    counts = (name, count.studies, count.reached, count.crashed, left.get(name))
    if at_choice:
        return Standing(*counts, 0.0, 0.0, 0.0, 0.0)
    if difference is None or tail is None:
        return Standing(*counts, None, None, None, None)
    error = difference.error()
    reach = t_quantile(tail, difference.freedom) * error
    gaps = (difference.gap, error, difference.gap - reach, difference.gap + reach)
    return Standing(*counts, *(value if math.isfinite(value) else None for value in gaps))
