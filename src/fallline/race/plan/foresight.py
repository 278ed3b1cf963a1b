"""Decisions that a race in rounds could reach, before it begins: by the formulas of the rule, with a noise that is
typical."""

from __future__ import annotations

import dataclasses
import math

from fallline.document.numbers import counted
from fallline.measure.student import t_quantile
from fallline.score.decision.evidence import WEIGHT
from fallline.score.decision.schedule import level_of, looks_up_to

MOST_FORESEEN = 1000
"""Studies; nobody waits for more."""
FIXED_NOISE, TUNED_NOISE = 0.05, 0.10
"""How far times of studies usually scatter: with one setting, and where a study is the fastest of several trials."""


@dataclasses.dataclass(frozen=True)
class Foresight:
    """After so many studies of everybody, if nobody leaves."""

    studies: int
    looks: int
    noise: float
    detectable: float
    """The smallest difference of two that would be told apart on average, as a share."""
    bound: float
    """The most that the choice would be slower than the best, if all were equal, as a share."""

    def line(self) -> str:
        scatter, apart, loss = (f"{100 * share:.0f} %" for share in (self.noise, self.detectable, self.bound))
        return (
            f"{self.studies} studies each ({counted(self.looks, 'look')}), if their times scatter by {scatter} as "
            f"usual: two that differ by {apart} are told apart, and the choice is at most {loss} slower than the best; "
            "less as others leave."
        )


def foresee(studies: int, contestants: int, noise: float) -> Foresight:
    """At the last look that so many studies allow.

    >>> foresee(3, 2, 0.05).bound > foresee(12, 2, 0.05).bound > 0.0
    True
    """
    looks = looks_up_to(studies)
    done, alpha = looks[-1], level_of(len(looks))
    others = max(1, contestants - 1)
    error, freedom = math.sqrt(2.0 * noise**2 / done), min(WEIGHT + done - 1, others * (done - 1))
    told_apart = t_quantile(alpha / (max(2, contestants) * others), freedom) * error
    bound = t_quantile(alpha / others, freedom) * error
    return Foresight(done, len(looks), noise, math.expm1(told_apart), math.expm1(bound))


def enough(within: float, contestants: int, noise: float) -> int | None:
    """Studies of everybody after which a choice is within a margin even if all are equal; None if that takes too many.

    >>> enough(0.05, 2, 0.05), enough(0.2, 2, 0.05)
    (33, 6)
    """
    sizes = looks_up_to(MOST_FORESEEN)
    return next((studies for studies in sizes if foresee(studies, contestants, noise).bound <= within), None)


@dataclasses.dataclass(frozen=True)
class Pace:
    """Hours that rounds take if nobody leaves."""

    before: float
    """The race has nothing of its own to show for these: settings searched, targets set, steps measured first."""
    first_round: float
    first_studies: int
    session: float
    """Steps measured again at a look."""

    def hours(self, studies: int) -> float:
        rounds = studies * self.first_round / self.first_studies
        return self.before + rounds + self.session * len(looks_up_to(studies))

    def studies_within(self, hours: float, most: int) -> int:
        """The studies of the last look in so many hours, of at most so many studies; 0 if there is none.

        >>> Pace(0.1, 0.3, 3, 0.0).studies_within(1.0, 40), Pace(0.1, 0.3, 3, 0.05).studies_within(1.0, 40)
        (8, 6)
        """
        return max((n for n in looks_up_to(most) if self.hours(n) <= hours + 1e-9), default=0)
