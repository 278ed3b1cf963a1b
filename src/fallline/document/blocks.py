"""A document: an ordered list of blocks, and where their numbers come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from fallline.document.cells import Cell, Column, Text, text_of
from fallline.document.figures import Chart, Figure, HeatMap

Tone = Literal["plain", "dim", "strong"]


@dataclasses.dataclass(frozen=True)
class Heading:
    text: str
    detail: bool = False


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A sentence or several; ``lead`` is the term that they explain."""

    text: str
    lead: str = ""
    tone: Tone = "plain"
    detail: bool = False


@dataclasses.dataclass(frozen=True)
class Note:
    """A reservation that a reader should know before believing a number."""

    text: str
    detail: bool = True


@dataclasses.dataclass(frozen=True)
class Snippet:
    """Lines to read or paste as they are: renderers do not break them."""

    text: str
    language: str = ""
    detail: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One sentence that answers, with the name of the data it was computed from."""

    text: str
    data: str = ""
    file: str = ""
    detail: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.text} (data {self.data} in {self.file})" if self.data else self.text


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    detail: bool = False
    """As of every block: whether ``--quiet`` leaves it out."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.title!r} has {len(self.columns)} columns, and a row of another length")

    @property
    def header(self) -> list[str]:
        """Titles in one line each."""
        return [" ".join(column.title.split()) for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """Its cells as a reader sees them."""
        return [[text_of(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    @property
    def keys(self) -> int:
        """How many columns, from the left, say which row it is."""
        return next((at for at, column in enumerate(self.columns) if not column.key), len(self.columns))


Block = Heading | Paragraph | Note | Snippet | Verdict | Table | Chart | HeatMap


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where the numbers come from."""

    data: str = ""
    """Names the samples: other samples, another name."""
    file: str = ""
    machine: str = ""
    """Processor, memory, versions and load, in one line."""


@dataclasses.dataclass(frozen=True)
class Document:
    blocks: Sequence[Block]
    provenance: Provenance = Provenance()
    result: Any = None
    """The same for programs, with keys that stay; the JSON renderer prints it in place of the blocks."""
    records: Table | None = None
    """Every number in one table, a line for each; the CSV renderer prints it in place of the tables."""

    def brief(self) -> Document:
        """Without its details."""
        return dataclasses.replace(self, blocks=tuple(block for block in self.blocks if not block.detail))

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, (Chart, HeatMap))]


def names_document(names: Sequence[str]) -> Document:
    """A name per line, and nothing else."""
    column = Column("", name="name", align="left", key=True)
    return Document([Table("", [column], [[Text(name)] for name in names])], result=list(names))


def map_table(figure: HeatMap) -> Table:
    """The words of a map's tiles as a table."""
    columns = [Column(figure.y_label, key=True)]
    columns += [Column(name, align="left") for name in figure.headings or figure.columns]
    rows: list[list[Cell]] = []
    for row in figure.rows:
        tiles = [figure.tiles.get((column, row)) for column in figure.columns]
        rows.append([Text(row), *(Text(tile.text if tile else "") for tile in tiles)])
    return Table(figure.title, columns, rows)
