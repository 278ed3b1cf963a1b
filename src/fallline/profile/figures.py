"""Figures of a profile: loss against tokens and seconds, phases, memory against throughput."""

from __future__ import annotations

from collections.abc import Sequence

from fallline.document.blocks import Block
from fallline.profile.estimate import CellEstimate


def figures(cells: Sequence[CellEstimate]) -> list[Block]:
    return []
