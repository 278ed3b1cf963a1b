"""The default race: five optimizers on ``chars``, each with one documented setting, in rounds to the target."""

from __future__ import annotations

from fallline.race.contestants import Contestant, named
from fallline.race.plan import ROUNDS, SELF, Rules
from fallline.score.decision import FIRST_LOOK

WORKLOAD = "chars"
NAMES = ("adamw", "lion", "schedule_free_adamw", "adan", "sgd")
RULES = Rules(ruleset=SELF, self_factor=1.0, trials=1, studies=FIRST_LOOK, design=ROUNDS)
"""No tuning, and no more budget for that: a trial ends at the target, as all of them are set up to reach it."""


def contestants() -> list[Contestant]:
    """Their settings without tuning; `fallline.race.contestants.spaces` documents them."""
    return [named(name) for name in NAMES]
