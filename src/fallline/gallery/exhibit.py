"""A figure with the sentence that its numbers support, and what a user may ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.document.figures import Figure


class NoExhibit(ValueError):
    """Raised, with one line for the user, where wishes cannot be followed."""


@dataclasses.dataclass(frozen=True)
class Wishes:
    """The options of the command; a figure reads those that concern it."""

    optimizers: tuple[str, ...] = ()
    """For the Rosenbrock function, instead of the lecture's four."""
    lr: float | None = None
    """For the Rosenbrock function."""
    logs: Path | None = None
    """AlgoPerf's logs: a folder or an archive."""
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Exhibit:
    figures: Sequence[Figure]
    caption: str
    """The caption, with numbers computed from the data."""
    numbers: Mapping[str, Any]
    """The same numbers for programs."""
    data: str
    """The source of the data, and who computed them."""
