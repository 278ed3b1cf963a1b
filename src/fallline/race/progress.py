"""How a race tells whoever watches it how far it is, and why it cannot be run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fallline.race.results import Row
from fallline.race.verdict.race_look import RaceLook


class RaceError(Exception):
    """A race that cannot be run; the first line says why."""


@dataclasses.dataclass
class Progress:
    """Called as a race goes on; the default says nothing."""

    notice: Callable[[str], None] = lambda text: None
    trial_ended: Callable[[Row, str], None] = lambda row, status: None
    planned: Callable[[int, int], None] = lambda done, total: None
    round_planned: Callable[[int, int], None] = lambda done, total: None
    """As ``planned``, for every round after the first."""
    looked: Callable[[RaceLook], None] = lambda look: None
