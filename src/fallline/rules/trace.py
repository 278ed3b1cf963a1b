"""The name of one specialisation of a rule."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Trace:
    """Names one specialisation of a rule."""

    statics: tuple[tuple[str, Any], ...] = ()
    ndim: int | None = None
    entry: str | None = None
    cautious: bool = False
