"""The numbers of a document as CSV, at full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from fallline.document.blocks import Document, Table
from fallline.document.cells import Cell, Change, Column, Number, raw


def csv_text(document: Document) -> str:
    """The table of all records, or the only table; several tables become one, each line with the name of its table."""
    tables = [document.records] if document.records is not None else document.tables
    if len(tables) == 1:
        return _written(_headings(tables[0]), _lines(tables[0]))
    headings = dict.fromkeys(["table", *(heading for table in tables for heading in _headings(table))])
    lines = ({"table": table.title, **line} for table in tables for line in _lines(table))
    return _written(list(headings), lines)


def _written(headings: list[str], lines: Iterator[dict[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _headings(table: Table) -> list[str]:
    """A heading for every column and for every further number in its cells."""
    found: dict[str, None] = {}
    for at, column in enumerate(table.columns):
        found[column.heading] = None
        for row in table.rows:
            found.update(dict.fromkeys(_fields(row[at], column)))
    return list(found)


def _lines(table: Table) -> Iterator[dict[str, object]]:
    for row in table.rows:
        line: dict[str, object] = {}
        for cell, column in zip(row, table.columns, strict=True):
            line |= _fields(cell, column)
        yield line


def _fields(cell: Cell, column: Column) -> dict[str, object]:
    """A heading and a value for every number of a cell."""
    name, value = column.heading, raw(cell)
    found: dict[str, object] = {name: "" if value is None else value}
    if isinstance(cell, Change):
        found[f"{name}, after"] = cell.after
    if isinstance(cell, Number):
        found |= {f"{name}, low": cell.low, f"{name}, high": cell.high} if cell.low is not None else {}
        found |= {f"{name}, of": cell.of} if cell.of is not None else {}
        found |= {f"{name}, beside": cell.beside.value} if cell.beside is not None else {}
    if (mark := getattr(cell, "mark", None)) is not None:
        found[f"{name}, mark"] = mark.value
    return found
