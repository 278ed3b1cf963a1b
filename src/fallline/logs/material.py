"""Results as trackers see them: runs with settings and curves, and a document with tables beside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fallline.document.blocks import Document
from fallline.document.markdown import markdown

Setting = str | int | float | bool


@dataclasses.dataclass(frozen=True)
class Curve:
    """Values of one metric over the steps of a run; those that are not finite are left out when it is written."""

    name: str
    steps: Sequence[int]
    values: Sequence[float | None]
    seconds: Sequence[float]
    """Seconds of training, up to each value."""

    def points(self) -> Iterator[tuple[int, float, float]]:
        """Step, value, seconds."""
        for step, value, seconds in zip(self.steps, self.values, self.seconds, strict=True):
            if value is not None and math.isfinite(value):
                yield step, value, seconds


@dataclasses.dataclass(frozen=True)
class Run:
    """One training."""

    name: str
    group: str
    """Runs of a group differ in their random numbers or settings only: a contestant."""
    settings: Mapping[str, Setting]
    curves: Sequence[Curve]
    outcome: Mapping[str, float]
    """Numbers that sum it up: steps to target, seconds."""


@dataclasses.dataclass(frozen=True)
class Material:
    project: str
    runs: Sequence[Run]
    document: Document
    """The answer of the verb about all runs: tables and the verdict."""
    artefacts: Sequence[Path] = ()
    """Files that a tracker keeps a copy of."""

    @property
    def text(self) -> str:
        return markdown(self.document)
