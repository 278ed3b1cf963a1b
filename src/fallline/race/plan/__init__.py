"""The plan of a race: rules, workloads as they are entered, and every trial that follows from them."""

from fallline.race.plan.entries import Entry
from fallline.race.plan.rounds import Round, first_round, next_round
from fallline.race.plan.rules import (
    BUDGET,
    CALIBRATED_CLOCK,
    CLOCKS,
    EXTERNAL,
    FIXED,
    MOST_STUDIES,
    MOST_TRIALS,
    RACE,
    ROUNDS,
    RULESETS,
    SEARCH,
    SELF,
    STEPS_CLOCK,
    TARGET,
    Rules,
    target_horizon,
)
from fallline.race.plan.search import search_trials, with_settings
from fallline.race.plan.trials import (
    Trial,
    reference_of,
    searches,
    target_trials,
    trials,
    trials_in_study,
    trials_of_study,
)

__all__ = [
    "BUDGET",
    "CALIBRATED_CLOCK",
    "CLOCKS",
    "EXTERNAL",
    "FIXED",
    "MOST_STUDIES",
    "MOST_TRIALS",
    "RACE",
    "ROUNDS",
    "RULESETS",
    "SEARCH",
    "SELF",
    "STEPS_CLOCK",
    "TARGET",
    "Entry",
    "Round",
    "Rules",
    "Trial",
    "first_round",
    "next_round",
    "reference_of",
    "search_trials",
    "searches",
    "target_horizon",
    "target_trials",
    "trials",
    "trials_in_study",
    "trials_of_study",
    "with_settings",
]
