"""The tables of a comparison beyond its winners, and its answers to published claims.

Every plan has the times of its arms and the winners.  The two published comparisons also have claims to answer, and one
of them has tables of its own, with memory beside time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Table
from fallline.step import tables
from fallline.step.analyse import TableResult
from fallline.step.published import adan_tables, claims
from fallline.step.published.presets import ADAM_GRID, ADAN_GPT2

Memory = Mapping[str, Mapping[str, Any]]
"""Figures of memory by the names that ``memory_table`` gives."""


class Comparison:
    """A comparison of implementations and shapes that the user chose."""

    def tables(self, results: Sequence[TableResult], memory: Memory, exact: bool) -> tuple[list[Table], list[str]]:
        """The tables to show, and percentages in them that do not follow from their cells."""
        pairs = [(tables.times(result, exact), tables.speeds(result)) for result in results]
        return [table for pair in pairs for table in pair], []

    def claims(self, results: Sequence[TableResult], memory: Memory) -> list[claims.Answer]:
        """Answers to the published claims."""
        return []

    def notes(self, results: Sequence[TableResult], memory: Memory) -> list[str]:
        return []

    def verdict(self, results: Sequence[TableResult], memory: Memory) -> str | None:
        """The last sentence, if it is not about the winner."""
        return None


class AdamGrid(Comparison):
    def claims(self, results: Sequence[TableResult], memory: Memory) -> list[claims.Answer]:
        return claims.grid_claims(results[0])


class AdanGpt2(Comparison):
    def tables(self, results: Sequence[TableResult], memory: Memory, exact: bool) -> tuple[list[Table], list[str]]:
        timed = [adan_tables.time_table(result) for result in results]
        found = [table for table, _ in timed]
        found.append(adan_tables.memory_table(memory))
        found += [adan_tables.starts_table(result, memory) for result in results]
        found += [tables.speeds(result) for result in results]
        return found, [text for _, wrong in timed for text in wrong]

    def claims(self, results: Sequence[TableResult], memory: Memory) -> list[claims.Answer]:
        return claims.adan_claims(results[0], memory)

    def notes(self, results: Sequence[TableResult], memory: Memory) -> list[str]:
        return adan_tables.notes(memory, results[0])

    def verdict(self, results: Sequence[TableResult], memory: Memory) -> str | None:
        return claims.adan_costs(results[0], memory)


_PUBLISHED: Mapping[str, Comparison] = {ADAM_GRID: AdamGrid(), ADAN_GPT2: AdanGpt2()}


def comparison(plan: str) -> Comparison:
    """The comparison of the plan of this name."""
    return _PUBLISHED.get(plan, Comparison())
