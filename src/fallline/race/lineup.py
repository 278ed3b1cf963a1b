"""The line-up of a race, which all its parts share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
from fallline.race.plan import Entry, Rules
from fallline.race.results import Results


@dataclasses.dataclass(frozen=True)
class Lineup:
    """The workloads, the contestants and the rules of a race, where it is stored, and the processes that run it."""

    entries: dict[str, Entry]
    """Workloads by name; one that is left out while the race is prepared is deleted here."""
    contestants: Mapping[str, Contestant]
    rules: Rules
    results: Results
    engine: Engine
