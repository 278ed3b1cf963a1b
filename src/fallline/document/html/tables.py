"""A table as HTML: cells carry their raw values, by which the page's script sorts them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Mark, Missing, Number, Range, raw, text_of
from fallline.document.html.tags import element, text

CLASSES = {Mark.FASTEST: "best", Mark.SUSPECT: "doubt", Mark.WARNING: "doubt", Mark.SET_ASIDE: "aside"}
REMARKS = {
    Mark.FASTEST: "the fastest",
    Mark.SUSPECT: "a gate does not believe this number",
    Mark.MODELLED: "computed, not measured",
    Mark.SET_ASIDE: "takes no part in the verdict",
}
"""Marks in words, for who cannot see them or does not know them."""
WHISKER = 100.0
"""The width of the drawing of an interval, in its own units."""

Scale = tuple[float, float]


def table_element(table: Table, identity: str | None = None) -> str:
    """``<table>``, without its title; ``identity`` names it for scripts, and makes its headings buttons that sort.

    Rows with sentences in them are cards on a phone, where a column of text would be out of sight.
    """
    carded = identity is not None and any(column.prose for column in table.columns)
    head = "".join(_heading(column, identity is not None, carded) for column in table.columns)
    scales = [_scale([row[at] for row in table.rows]) for at in range(len(table.columns))]
    body = "".join(_line(_row(table.columns, row, scales, carded), carded) for row in table.rows)
    group = _role("rowgroup", carded)
    inner = element("thead", _line(head, carded), role=group) if any(table.header) else ""
    inner += element("tbody", body, role=group)
    return element("table", inner, id=identity, class_="cards" if carded else None, role=_role("table", carded))


def _role(name: str, carded: bool) -> str | None:
    """Browsers forget that a table is one where its rows are laid out as blocks, unless it is said."""
    return name if carded else None


def _line(cells: str, carded: bool) -> str:
    return element("tr", cells, role=_role("row", carded))


def _heading(column: Column, sortable: bool, carded: bool) -> str:
    words = text(_title(column))
    inner = element("button", words, type="button") if sortable and words else words
    return element(
        "th",
        inner,
        scope="col",
        role=_role("columnheader", carded),
        class_=_classes(column),
        aria_sort="none" if sortable else None,
    )


def _title(column: Column) -> str:
    """In one line: a title's line breaks are for terminals, which have less room."""
    return " ".join(column.title.split())


def _classes(column: Column, *more: str) -> str | None:
    found = [*(["number"] if column.align == "right" else []), *(["prose"] if column.prose else []), *more]
    return " ".join(found) or None


def _row(columns: Sequence[Column], row: Sequence[Cell], scales: Sequence[Scale | None], carded: bool) -> str:
    named = False
    cells = []
    for column, cell, scale in zip(columns, row, scales, strict=True):
        # The first key that is a name heads the row; a rank does not.
        heads = column.key and not named and not isinstance(cell, Number)
        named = named or heads
        cells.append(_cell(column, cell, scale, heads, carded))
    return "".join(cells)


def _cell(column: Column, cell: Cell, scale: Scale | None, heads: bool, carded: bool) -> str:
    mark = getattr(cell, "mark", None)
    remark = cell.reason if isinstance(cell, Missing) else REMARKS.get(mark, "") if mark else ""
    shown = text(text_of(cell, column)).replace("\n", "<br>")
    if remark:
        shown += element("span", f" ({text(remark)})", class_="unseen")
    if isinstance(cell, Range) and scale is not None:
        shown += _whisker(cell, scale)
    label, unit = _labels(column, cell) if carded and not heads else (None, None)
    return element(
        "th" if heads else "td",
        shown,
        scope="row" if heads else None,
        role=_role("rowheader" if heads else "cell", carded),
        class_=_classes(column, *([CLASSES[mark]] if mark in CLASSES else [])),
        title=remark or None,
        data_value=_sortable(cell),
        data_label=label,
        data_unit=unit,
    )


def _labels(column: Column, cell: Cell) -> tuple[str | None, str | None]:
    """The words before and after the value on a card, where no heading is above it: ``saves`` and ``GB``."""
    title = _title(column)
    words = title.removesuffix(f" {column.unit}") if column.unit else title
    return words or None, column.unit if words != title and isinstance(cell, Number) else None


def _sortable(cell: Cell) -> str | None:
    """The value that the cell is sorted by; nothing for a missing one, which comes last."""
    if isinstance(cell, Range):
        return repr(cell.low) if math.isfinite(cell.low) else None
    value = raw(cell)
    return None if value is None else str(value)


# ------------------------------------------------------------------ intervals


def _scale(cells: Sequence[Cell]) -> Scale | None:
    """The common scale of a column of intervals: from the lowest to the highest end."""
    ends = [end for cell in cells if isinstance(cell, Range) for end in (cell.low, cell.high) if math.isfinite(end)]
    if sum(isinstance(cell, Range) for cell in cells) < 2 or min(ends, default=0.0) == max(ends, default=0.0):
        return None
    return min(ends), max(ends)


def _whisker(cell: Range, scale: Scale) -> str:
    """The interval drawn on the column's scale, with a tick at zero if the scale passes it."""
    low, high = scale
    if not (math.isfinite(cell.low) and math.isfinite(cell.high)):
        return ""

    def place(value: float) -> str:
        return f"{WHISKER * (value - low) / (high - low):.1f}"

    zero = f'<line class="zero" x1="{place(0)}" x2="{place(0)}" y1="0" y2="8"/>' if low < 0.0 < high else ""
    bar = f'<line class="bar" x1="{place(cell.low)}" x2="{place(cell.high)}" y1="4" y2="4"/>'
    return (
        '<svg class="whisker" viewBox="-2 0 104 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<line class="rail" x1="0" x2="100" y1="4" y2="4"/>{zero}{bar}</svg>'
    )
