"""Fits a table into a width: breaks headings between words, wraps text, or cuts the table between columns."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

from fallline.document.blocks import Table

GAP = 2
"""Blanks between two columns."""
HEADING_LINES = 3
LEAST_PROSE = 20
"""The least width of wrapped text; with less, each row becomes a paragraph."""


@dataclasses.dataclass(frozen=True)
class Fitted:
    texts: Sequence[Sequence[str]]
    headings: Sequence[Sequence[str]]
    """The headings, each as a list of lines."""
    pieces: Sequence[Sequence[int]]
    """The columns of each piece, from top to bottom; empty if rows have to become paragraphs."""
    whole: Sequence[bool]
    """Whether the text of a column must not be broken."""


def fit(table: Table, room: int) -> Fitted:
    """Breaks headings first, then wraps text, then cuts the table, so that no width hides a number."""
    columns = table.columns
    texts = table.texts
    widest = [max((_width(row[at]) for row in texts), default=0) for at in range(len(columns))]
    headings = [column.title.split("\n") for column in columns]
    widths = _widths(widest, headings)
    if _total(widths) > room:
        headings = [_broken(column.title, width) for column, width in zip(columns, widest, strict=True)]
        widths = _widths(widest, headings)
    everything = [list(range(len(columns)))]
    if _total(widths) <= room:
        return Fitted(texts, headings, everything, [True] * len(columns))
    prose = [at for at, column in enumerate(columns) if column.prose]
    if prose:
        left = room - _total([0 if at in prose else width for at, width in enumerate(widths)])
        enough = left >= sum(min(LEAST_PROSE, widths[at]) for at in prose)
        return Fitted(texts, headings, everything if enough else [], [at not in prose for at in range(len(columns))])
    beside_keys = room - sum(width + GAP for width in widths[: table.keys])
    # Names of rows may take several lines, and so may a cell that is too wide even beside the keys alone.
    whole = [
        column.align == "right" if column.key else width <= beside_keys
        for column, width in zip(columns, widths, strict=True)
    ]
    return Fitted(texts, headings, _pieces(widths, table.keys, room), whole)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(widest: Sequence[int], headings: Sequence[Sequence[str]]) -> list[int]:
    return [max(width, *map(len, lines)) for width, lines in zip(widest, headings, strict=True)]


def _broken(heading: str, width: int) -> list[str]:
    """Breaks a heading into lines no wider than the cells below, as far as its words and the number of lines allow.

    A heading that already has several lines keeps them.
    """
    if "\n" in heading:
        return heading.split("\n")
    for room in range(max(1, width, *map(len, heading.split())), len(heading)):
        lines = textwrap.wrap(heading, room)
        if len(lines) <= HEADING_LINES:
            return lines
    return [heading]


def _pieces(widths: Sequence[int], keys: int, room: int) -> list[list[int]]:
    """The columns of each piece: the keys, then as many others as fit, but at least one."""
    first = list(range(keys))
    found = [list(first)]
    for index in range(keys, len(widths)):
        needed = sum(widths[at] + GAP for at in found[-1]) + widths[index]
        if needed > room and len(found[-1]) > keys:
            found.append(list(first))
        found[-1].append(index)
    return found
