"""The plan of a race: rules, workloads as they are entered, and every trial that follows from them."""

from fallline.race.plan.entries import Entry
from fallline.race.plan.rules import (
    BUDGET,
    CALIBRATED_CLOCK,
    CLOCKS,
    EXTERNAL,
    MOST_TRIALS,
    RACE,
    RULESETS,
    SELF,
    STEPS_CLOCK,
    TARGET,
    Rules,
    target_horizon,
)
from fallline.race.plan.trials import Trial, reference_of, searches, target_trials, trials, trials_in_study

__all__ = [
    "BUDGET",
    "CALIBRATED_CLOCK",
    "CLOCKS",
    "EXTERNAL",
    "MOST_TRIALS",
    "RACE",
    "RULESETS",
    "SELF",
    "STEPS_CLOCK",
    "TARGET",
    "Entry",
    "Rules",
    "Trial",
    "reference_of",
    "searches",
    "target_horizon",
    "target_trials",
    "trials",
    "trials_in_study",
]
