"""Decisions that a race in rounds could reach, before it begins: by the formulas of the rule, with a noise that is
typical."""

from __future__ import annotations

import dataclasses
import math

from fallline.measure.student import t_quantile
from fallline.score.decision.evidence import WEIGHT
from fallline.score.decision.schedule import level_of, looks_up_to

FIXED_NOISE, TUNED_NOISE = 0.05, 0.10
"""How far times of studies usually scatter: with one setting, and where a study is the fastest of several trials."""


@dataclasses.dataclass(frozen=True)
class Foresight:
    """After so many studies of everybody, if nobody leaves."""

    studies: int
    noise: float
    detectable: float
    """The smallest difference of two that would be told apart on average, as a share."""
    bound: float
    """The most that the choice would be slower than the best, if all were equal, as a share."""

    def line(self) -> str:
        scatter, apart, loss = (f"{100 * share:.0f} %" for share in (self.noise, self.detectable, self.bound))
        return (
            f"{self.studies} studies each, if their times scatter by {scatter} as usual: two that differ by {apart} "
            f"are told apart, and the choice is at most {loss} slower than the best; less as others leave."
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
    return Foresight(done, noise, math.expm1(told_apart), math.expm1(bound))


def studies_within(hours: float, first_hours: float, first_studies: int, before: float) -> int:
    """How many studies of everybody fit, if those of the first round take so long, and so long is spent before them.

    >>> studies_within(1.0, first_hours=0.3, first_studies=3, before=0.1)
    9
    """
    if first_hours <= 0.0:
        return first_studies
    return math.floor((hours - before) / (first_hours / first_studies) + 1e-9)
