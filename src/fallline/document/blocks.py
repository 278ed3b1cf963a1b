"""A document: an ordered list of blocks, and the source of their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from fallline.document.cells import Cell, Column, Number, Text, text_of
from fallline.document.figures import Figure, HeatMap, StackedBars

Tone = Literal["plain", "dim", "strong"]


@dataclasses.dataclass(frozen=True)
class _Block:
    detail: bool = dataclasses.field(default=False, kw_only=True)
    """Whether ``--quiet`` leaves the block out."""


@dataclasses.dataclass(frozen=True)
class Heading(_Block):
    text: str


@dataclasses.dataclass(frozen=True)
class Paragraph(_Block):
    """A sentence or several; ``lead`` is the term that they explain."""

    text: str
    lead: str = ""
    tone: Tone = "plain"


@dataclasses.dataclass(frozen=True)
class Note(_Block):
    """A reservation that a reader should know before believing a number."""

    text: str
    detail: bool = dataclasses.field(default=True, kw_only=True)


@dataclasses.dataclass(frozen=True)
class Snippet(_Block):
    """Lines to read or paste as they are; renderers do not break them."""

    text: str
    language: str = ""


@dataclasses.dataclass(frozen=True)
class Verdict(_Block):
    """One sentence that answers the question, with the name of the data behind it."""

    text: str
    data: str = ""
    file: str = ""
    headline: bool = False
    """Whether a page puts it above those that are not; the first of all is its heading."""

    @property
    def sentence(self) -> str:
        return f"{self.text} (data {self.data} in {self.file})" if self.data else self.text


@dataclasses.dataclass(frozen=True)
class Table(_Block):
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    name: str = ""
    """Its name on a page; the title by default."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.title!r} has {len(self.columns)} columns, and a row of another length")

    @property
    def header(self) -> list[str]:
        """The titles of the columns, each in one line."""
        return [" ".join(column.title.split()) for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The cells as text."""
        return [[text_of(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    @property
    def keys(self) -> int:
        """The number of columns, from the left, that identify a row."""
        return next((at for at, column in enumerate(self.columns) if not column.key), len(self.columns))


Block = Heading | Paragraph | Note | Snippet | Verdict | Table | Figure


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The source of the numbers."""

    data: str = ""
    """A name for the samples; different samples have a different name."""
    file: str = ""
    machine: str = ""
    """Processor, memory, versions and load, in one line."""
    facts: Sequence[tuple[str, str]] = ()
    """Further circumstances, each with its name: when, by which command, with which seed."""


@dataclasses.dataclass(frozen=True)
class Document:
    blocks: Sequence[Block]
    provenance: Provenance = Provenance()
    result: Any = None
    """The same content for programs, with stable keys; the JSON renderer prints it in place of the blocks."""
    records: Table | None = None
    """Every number in one table, one line for each; the CSV renderer prints it in place of the tables."""
    appendix: Sequence[Block] = ()
    """Further tables and figures, for which a page has room and a terminal has not."""

    def brief(self) -> Document:
        """The document without its details."""
        return dataclasses.replace(self, blocks=tuple(block for block in self.blocks if not block.detail))

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, Figure)]


def names_document(names: Sequence[str]) -> Document:
    """A document with one name per line and nothing else."""
    column = Column("", name="name", align="left", key=True)
    return Document([Table("", [column], [[Text(name)] for name in names])], result=list(names))


def as_table(block: Block) -> Table | None:
    """A table, or a figure whose numbers are one; None where the block is neither."""
    if isinstance(block, HeatMap):
        return map_table(block)
    if isinstance(block, StackedBars):
        return bars_table(block)
    return block if isinstance(block, Table) else None


def map_table(figure: HeatMap) -> Table:
    """The words of a map's tiles as a table."""
    columns = [Column(figure.y_label, key=True)]
    columns += [Column(name, align="left") for name in figure.headings or figure.columns]
    rows: list[list[Cell]] = []
    for row in figure.rows:
        tiles = [figure.tiles.get((column, row)) for column in figure.columns]
        rows.append([Text(row), *(Text(tile.text if tile else "") for tile in tiles)])
    return Table(figure.title, columns, rows)


def bars_table(figure: StackedBars) -> Table:
    """The sections of stacked bars as a table, with a line for their sum."""
    columns = [Column("", name="part", align="left", key=True)]
    columns += [Column(bar.name, unit=figure.unit, digits=figure.digits) for bar in figure.bars]
    values = [{part.name: part.value for part in bar.parts} for bar in figure.bars]
    rows: list[list[Cell]] = [
        [Text(name), *(Number(found.get(name, 0.0)) for found in values)] for name in figure.sections
    ]
    rows.append([Text("in all"), *(Number(bar.total) for bar in figure.bars)])
    return Table(f"{figure.title}, {figure.unit}", columns, rows)
