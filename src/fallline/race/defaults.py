"""The default race: five optimizers on ``chars``, each with one documented setting, three seeds."""

from __future__ import annotations

from fallline.race.contestants import Contestant, named
from fallline.race.plan import BUDGET, Rules

WORKLOAD = "chars"
NAMES = ("adamw", "lion", "schedule_free_adamw", "adan", "sgd")
RULES = Rules(ruleset=BUDGET, trials=1, studies=3)


def contestants() -> list[Contestant]:
    """Their settings without tuning; `fallline.race.contestants.spaces` documents them."""
    return [named(name) for name in NAMES]
