"""A leaderboard's rows as a table that fits the terminal, each piece of it with the names of contestants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from fallline.step.layout import show_fitted

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.score.leaderboard import Row

CONTESTANT = "contestant"

Column = tuple[str, Callable[["Row"], str]]
"""A heading, and a contestant's cell below it."""

RANK: tuple[Column, ...] = (
    ("#", lambda row: str(row.rank)),
    (CONTESTANT, lambda row: row.contestant),
)


def show_rows(
    console: Console, columns: Sequence[Column], rows: Iterable[Row], *, left: Collection[str] = (CONTESTANT,)
) -> None:
    """Headings in ``left`` stand left, the others right; a blank line ends each piece."""
    header = [heading for heading, _ in columns]
    cells = [[cell(row) for _, cell in columns] for row in rows]
    text = {index for index, heading in enumerate(header) if heading in left}
    show_fitted(console, header, cells, text, keys=header.index(CONTESTANT) + 1)
