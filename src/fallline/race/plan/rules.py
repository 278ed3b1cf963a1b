"""The rules of a race: how contestants are tuned, when a trial ends, which clock counts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from fallline.score.algoperf import TAU_MAX

EXTERNAL, SELF, BUDGET = "external", "self", "budget"
RULESETS = (EXTERNAL, SELF, BUDGET)
CALIBRATED_CLOCK, STEPS_CLOCK = "calibrated", "steps"
CLOCKS = (CALIBRATED_CLOCK, STEPS_CLOCK)
FIXED, ROUNDS = "fixed", "rounds"
"""Designs: so many studies of everybody, or rounds of studies of those in contention until the race is decided."""
DEFAULT_WITHIN = 0.05
"""The loss that a user accepts unless told otherwise."""
DEFAULT_WITHIN_METRIC = 0.01
"""The same of a metric at equal time: a loss of 5 % more is a much worse model, a time of 5 % more is not."""
MOST_STUDIES = 40
"""Where a race in rounds ends that has no time limit and cannot decide; its 13 looks have then used a level of 2 %."""
SELF_TUNING_FACTOR = 3.0
"""A self-tuning contestant's budget over an externally tuned one's: 3 in AlgoPerf v0.5, 1.5 since v0.6."""

MOST_TRIALS = 100_000
"""The most trials of a race: more than anybody runs, and few enough to draw their points in seconds."""

RACE, TARGET, SEARCH = "race", "target", "search"
"""Kinds of trials: those that are scored, those of the reference that set a target where there is none, and those that
find a setting for each contestant before the race."""
SEARCHED = 5
"""Settings that each contestant tries before the race, where the race finds them itself."""
DEFAULT_MINUTES = 10.0
"""Where a race that finds settings itself ends if no end was asked for: the first look is waited for."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """How contestants are tuned and when a trial ends."""

    ruleset: str = EXTERNAL
    trials: int = 5
    studies: int = 5
    seed: int = 0
    self_factor: float = SELF_TUNING_FACTOR
    clock: str = CALIBRATED_CLOCK
    """``calibrated``: steps × seconds per step, measured apart; ``steps``: steps alone, no calibration."""
    early_stop: bool = True
    tau_max: float = TAU_MAX
    seconds: float | None = None
    """In an equal-time race, how long everybody trains on the clock; None: as long as the reference's budget takes."""
    design: str = FIXED
    """``rounds``: ``studies`` are those of the first round."""
    within: float = DEFAULT_WITHIN
    """The race is decided when the choice can be at most so much slower than the best: 0.05 is 5 %."""
    until: str | None = None
    """``leader``: the race goes on until one is left."""
    minutes: float | None = None
    """When a race in rounds ends that is not decided, earlier runs of it included."""
    minutes_after_a_look: float | None = None
    """The same, but not before the first look: a race that nobody limited still ends with a choice."""
    search: int = 0
    """Settings that each contestant tries before the race, which is then run with the best of them; 0: no search."""
    memory_budget: int | None = None
    """The most bytes of states; contestants that need more do not run."""

    @property
    def in_rounds(self) -> bool:
        return self.design == ROUNDS

    @property
    def tuned(self) -> bool:
        return self.ruleset == EXTERNAL or (self.ruleset == BUDGET and self.trials > 1)

    @property
    def ends_late_trials(self) -> bool:
        """Whether a trial may end for being past τ_max times the fastest.

        Not in rounds: whoever is so slow leaves after the first, and times that were cut off depend on what ran beside
        them, which a verdict must not.
        """
        return self.ends_early and not self.in_rounds

    @property
    def ends_early(self) -> bool:
        """Whether trials that can no longer count are ended; never where all have the same time."""
        return self.early_stop and self.ruleset != BUDGET

    @property
    def trials_per_study(self) -> int:
        return self.trials if self.tuned else 1

    def most_steps(self, budget: int, kind: str = RACE) -> int:
        """The most steps of a trial on a workload with this budget: more without tuning; with equal times this is the
        reference's number, and the others' follow from the clock."""
        if kind == TARGET:
            return target_horizon(budget)
        return math.ceil(budget * self.self_factor) if self.ruleset == SELF else budget

    def ending(self) -> dict[str, Any]:
        """The settings that say when the race ends; they may change when it goes on."""
        return {
            "design": self.design,
            "within": self.within,
            "until": self.until,
            "minutes": self.minutes,
            "minutes_after_a_look": self.minutes_after_a_look,
        }

    def time_is_up(self, seconds_used: float, looks: int) -> bool:
        """After so many seconds and looks."""
        limits = (self.minutes, self.minutes_after_a_look if looks else None)
        return any(limit is not None and seconds_used >= 60 * limit for limit in limits)

    def fixed(self) -> dict[str, Any]:
        """The settings that must not change when a race goes on; studies may become more."""
        return {
            "ruleset": self.ruleset,
            "trials": self.trials_per_study,
            "seed": self.seed,
            "self_factor": self.self_factor if self.ruleset == SELF else None,
            "clock": self.clock,
            "early_stop": self.early_stop,
            "seconds": self.seconds,
            "search": self.search or None,
            "memory_budget": self.memory_budget,
        }


def target_horizon(budget: int) -> int:
    """The steps in which a target is set: two thirds of the budget."""
    return max(1, 2 * budget // 3)
