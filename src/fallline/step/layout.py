"""A table of text cells: in pieces that fit the width of a terminal, or as Markdown."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = 2
"""Blanks between two columns."""
HEADING_LINES = 3


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """How many columns are text, from the left; the others are numbers."""
    keys: int = 1
    """How many columns say which row it is: each piece of a table that is too wide for one begins with them."""

    def show(self, console: Console) -> None:
        console.print(self.title, style="bold")
        show_fitted(console, self.header, self.rows, range(self.left), self.keys)

    def markdown(self) -> str:
        rule = [":--" if index < self.left else "--:" for index in range(len(self.header))]
        lines = [self.header, rule, *self.rows]
        return f"#### {self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def show_fitted(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str | Text]], text: Container[int], keys: int
) -> None:
    """Breaks headings between words, then the table between columns, so that no terminal cuts off a number.

    Names of rows go over several lines, and so does a cell that is too wide even beside the keys alone.
    """
    from rich.table import Table as Rich

    widest = [max((len(row[index]) for row in rows), default=0) for index in range(len(header))]
    headings = [name.split("\n") for name in header]
    widths = _widths(widest, headings)
    if sum(widths) + GAP * (len(widths) - 1) > console.width:
        headings = [_broken(name, width) for name, width in zip(header, widest, strict=True)]
        widths = _widths(widest, headings)
    beside_keys = console.width - sum(width + GAP for width in widths[:keys])
    for piece in _pieces(widths, keys, console.width):
        shown = Rich(box=None, pad_edge=False)
        for index in piece:
            justify: Literal["left", "right"] = "left" if index in text else "right"
            whole = index not in text if index < keys else widths[index] <= beside_keys
            shown.add_column("\n".join(headings[index]), justify=justify, no_wrap=whole, overflow="fold")
        for row in rows:
            shown.add_row(*(row[index] for index in piece))
        console.print(shown)
        console.print()


def _widths(widest: Sequence[int], headings: Sequence[Sequence[str]]) -> list[int]:
    return [max(width, *map(len, lines)) for width, lines in zip(widest, headings, strict=True)]


def _broken(heading: str, width: int) -> list[str]:
    """Into lines no wider than the cells below, as far as its words and the number of lines allow.

    One that has several lines keeps them: whoever broke it knows its words.
    """
    if "\n" in heading:
        return heading.split("\n")
    for room in range(max(1, width, *map(len, heading.split())), len(heading)):
        lines = textwrap.wrap(heading, room)
        if len(lines) <= HEADING_LINES:
            return lines
    return [heading]


def _pieces(widths: Sequence[int], keys: int, room: int) -> list[list[int]]:
    """Columns of each piece: the keys, then as many others as fit, but at least one."""
    first = list(range(keys))
    found = [list(first)]
    for index in range(keys, len(widths)):
        needed = sum(widths[at] + GAP for at in found[-1]) + widths[index]
        if needed > room and len(found[-1]) > keys:
            found.append(list(first))
        found[-1].append(index)
    return found
