"""A document in a terminal, or as plain text of any width."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallline.document.blocks import Block, Document, Heading, Note, Paragraph, Snippet, Table, Verdict, map_table
from fallline.document.cells import Cell, Column, Mark, Text
from fallline.document.figures import Figure, HeatMap, StackedBars, Tile
from fallline.document.fitting import Fitted, fit
from fallline.document.stacked import lines as bar_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text as RichText

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
STYLES = {"plain": "", "dim": "dim", "strong": "bold"}
MARKS = {Mark.FASTEST: "bold", Mark.SUSPECT: "yellow", Mark.SET_ASIDE: "dim", Mark.WARNING: "yellow"}
CLEAR_LEAD = 2.0
"""A winner with at least this lead is bold."""


def show(document: Document, console: Console) -> None:
    """Prints every block that a terminal can show; of the figures these are maps and bars, and
    :mod:`~fallline.document.picture` draws all of them."""
    before: Block | None = None
    for block in document.blocks:
        if isinstance(block, Figure) and not isinstance(block, (HeatMap, StackedBars)):
            continue
        if _apart(before, block):
            console.print()
        _show(block, console)
        before = block


def plain(document: Document, width: int) -> str:
    """The same text without colours, and without the blanks that pad tables to their width."""
    from rich.console import Console

    text = io.StringIO()
    show(
        document,
        Console(file=text, highlight=False, markup=False, width=width, force_terminal=False, color_system=None),
    )
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _apart(before: Block | None, block: Block) -> bool:
    """Whether a blank line separates two blocks."""
    sentences, set_off = (Paragraph, Note), (Table, HeatMap, StackedBars, Snippet)
    if before is None:
        return False
    if isinstance(before, set_off) or isinstance(block, set_off):
        return True
    if isinstance(block, Heading):
        return True
    return isinstance(before, sentences) and isinstance(block, Verdict)


def _show(block: Block, console: Console) -> None:
    if isinstance(block, Table):
        _show_table(block, console)
    elif isinstance(block, HeatMap):
        _show_map(block, console)
    elif isinstance(block, StackedBars):
        _show_bars(block, console)
    elif isinstance(block, Snippet):
        _show_snippet(block, console)
    elif isinstance(block, Heading):
        console.print(block.text, style="bold")
    elif isinstance(block, Note):
        console.print(f"note: {block.text}", style="dim")
    elif isinstance(block, Verdict):
        console.print(block.sentence)
    elif isinstance(block, Paragraph):
        if block.lead:
            console.print(block.lead, style="bold", end=": ")
        console.print(block.text, style=STYLES[block.tone])


def _show_snippet(block: Snippet, console: Console) -> None:
    if block.language and console.is_terminal and not console.no_color:
        from rich.syntax import Syntax

        console.print(Syntax(block.text, block.language, background_color="default", word_wrap=True))
    else:
        console.print(block.text, soft_wrap=True)


# ------------------------------------------------------------------ tables


def _show_table(table: Table, console: Console) -> None:
    if table.title:
        console.print(table.title, style="bold")
    if not table.rows:
        return
    fitted = fit(table, console.width)
    styled = _styled_rows(table, fitted)
    if fitted.pieces:
        _print_pieces(console, table.columns, fitted, styled)
    else:
        _print_paragraphs(console, table, styled)


def _styled_rows(table: Table, fitted: Fitted) -> list[list[RichText]]:
    return [
        [_styled(cell, text) for cell, text in zip(row, texts, strict=True)]
        for row, texts in zip(table.rows, fitted.texts, strict=True)
    ]


def _styled(cell: Cell, text: str) -> RichText:
    from rich.text import Text as RichText

    mark = getattr(cell, "mark", None)
    if isinstance(cell, Text) and cell.note:
        found = RichText(cell.value, overflow="fold")
        return found.append(f"\n{cell.note}", style=MARKS[Mark.WARNING])
    return RichText(text, style=MARKS.get(mark, "") if mark else "", overflow="fold")


def _print_pieces(
    console: Console, columns: Sequence[Column], fitted: Fitted, rows: Sequence[Sequence[RichText]]
) -> None:
    """Prints each piece with the columns that name its rows, and a blank line between two pieces."""
    from rich.table import Table as RichTable

    titled = any(any(lines) for lines in fitted.headings)
    for number, piece in enumerate(fitted.pieces):
        if number:
            console.print()
        shown = RichTable(box=None, pad_edge=False, show_header=titled)
        for at in piece:
            shown.add_column(
                "\n".join(fitted.headings[at]), justify=columns[at].align, no_wrap=fitted.whole[at], overflow="fold"
            )
        for row in rows:
            shown.add_row(*(row[at] for at in piece))
        console.print(shown)


def _print_paragraphs(console: Console, table: Table, rows: Sequence[Sequence[RichText]]) -> None:
    """Prints one row after the other, for a table whose text has no room in columns."""
    from rich.text import Text as RichText

    first = next(column for column in table.columns if column.prose)
    for number, row in enumerate(rows):
        if number:
            console.print()
        for cell, column, title in zip(row, table.columns, table.header, strict=True):
            title = "" if column.key or column is first else title
            if column.key:
                cell.stylize("bold")
            console.print(RichText(f"{title}: ", style="dim") + cell if title else cell)


# ------------------------------------------------------------------ maps


def _show_map(figure: HeatMap, console: Console) -> None:
    """Prints a map as a table, coloured by winner."""
    table = map_table(figure)
    fitted = fit(table, console.width)
    styled = _styled_rows(table, fitted)
    for name, row in zip(figure.rows, styled, strict=True):
        for column, cell in zip(figure.columns, row[1:], strict=True):
            cell.stylize(_colour(figure, figure.tiles.get((column, name))))
    console.print(table.title, style="bold")
    _print_pieces(console, table.columns, fitted, styled)


def _colour(figure: HeatMap, tile: Tile | None) -> str:
    if tile is None or tile.winner is None or tile.set_aside:
        return "dim"
    colour = COLOURS[figure.contestants.index(tile.winner) % len(COLOURS)]
    return f"bold {colour}" if tile.lead >= CLEAR_LEAD else colour


# ------------------------------------------------------------------ bars


def _show_bars(figure: StackedBars, console: Console) -> None:
    console.print(figure.title, style="bold")
    for line in bar_lines(figure, console.width) if figure.bars else []:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    if figure.caption:
        console.print(figure.caption, style="dim")
