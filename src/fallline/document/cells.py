"""The cells of a table: raw values, and their text."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Literal

from fallline.document.numbers import ABSENT, Digits, in_unit


class Mark(enum.Enum):
    """A remark that a reader needs to read one cell correctly."""

    FASTEST = "fastest"
    SUSPECT = "suspect"
    """A gate does not believe the number."""
    MODELLED = "modelled"
    """The number was computed, not measured."""
    SET_ASIDE = "set aside"
    """The row takes no part in any verdict."""
    WARNING = "warning"


BEFORE = {Mark.MODELLED: "~"}
AFTER = {Mark.SUSPECT: " !"}
"""Signs of marks that text shows; the others are colours, where there are colours."""


@dataclasses.dataclass(frozen=True)
class Number:
    value: float
    low: float | None = None
    high: float | None = None
    """The bounds of its interval."""
    mark: Mark | None = None
    of: int | None = None
    """The total of a count: 5 in ``3 of 5``."""
    beside: Number | None = None
    """A second number that belongs to the first: 0.92 in ``43 (0.92)``."""
    digits: Digits | None = None
    """The digits of this cell, instead of the column's."""


@dataclasses.dataclass(frozen=True)
class Range:
    """The range of several values; a bound that is not finite is shown as absent."""

    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Change:
    """``8 → 2.03``: a number under one condition and under another."""

    before: float
    after: float


@dataclasses.dataclass(frozen=True)
class Text:
    value: str
    mark: Mark | None = None
    note: str = ""
    """Lines below the text that need attention."""


@dataclasses.dataclass(frozen=True)
class Missing:
    """A missing value, with the reason if there is one to tell."""

    reason: str = ""


Cell = Number | Range | Change | Text | Missing


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    """The heading; a line break marks where it may be broken."""
    unit: str = ""
    """The unit of the raw values."""
    align: Literal["left", "right"] = "right"
    digits: Digits = "general"
    key: bool = False
    """Whether it identifies rows; keys come first, and every piece of a table that is cut begins with them."""
    prose: bool = False
    """Whether its text may be broken between words."""
    name: str = ""
    """The name for programs; the title by default."""

    @property
    def heading(self) -> str:
        """The name that programs read: one line, with the unit."""
        plain = self.name or " ".join(self.title.split())
        return f"{plain} [{self.unit}]" if self.unit and not self.name else plain


def number(value: float | None, *, reason: str = "", of: int | None = None, mark: Mark | None = None) -> Cell:
    """A number, or the sign that there is none."""
    if value is None or not math.isfinite(value):
        return Missing(reason)
    return Number(value, of=of, mark=mark)


def text_of(cell: Cell, column: Column) -> str:
    """The cell as text.

    >>> ms = Column("ms", digits="supported")
    >>> text_of(Number(5.3217, 5.24, 5.40, Mark.SUSPECT), ms), text_of(Number(3, of=5), Column("reached"))
    ('5.32 !', '3 of 5')
    >>> text_of(Number(43.1, 42, 44, beside=Number(0.92, digits="share")), ms), text_of(Missing("no compiler"), ms)
    ('43 (0.92)', '–')
    >>> text_of(Range(1.9, math.inf), Column("range", digits="four")), text_of(Change(8, 2.03), Column("bytes"))
    ('1.900 to –', '8 → 2.03')
    """
    if isinstance(cell, Missing):
        return ABSENT
    if isinstance(cell, Text):
        return f"{cell.value}\n{cell.note}" if cell.note else cell.value
    if isinstance(cell, Range):
        ends = [in_unit(end, column.unit, column.digits) for end in (cell.low, cell.high)]
        return ABSENT if set(ends) == {ABSENT} else " to ".join(ends)
    if isinstance(cell, Change):
        return " → ".join(in_unit(one, column.unit, column.digits) for one in (cell.before, cell.after))
    return _number_text(cell, column)


def _number_text(cell: Number, column: Column) -> str:
    digits = column.digits if cell.digits is None else cell.digits
    shown = in_unit(cell.value, column.unit, digits, cell.low, cell.high)
    if cell.of is not None:
        shown = f"{shown} of {cell.of}"
    if cell.beside is not None:
        shown = f"{shown} ({_number_text(cell.beside, column)})"
    return shown if cell.mark is None else BEFORE.get(cell.mark, "") + shown + AFTER.get(cell.mark, "")


def raw(cell: Cell) -> float | str | None:
    """The value at full precision; None if it is missing."""
    if isinstance(cell, Missing):
        return None
    if isinstance(cell, Text):
        return cell.value
    if isinstance(cell, Range):
        return " to ".join("" if math.isinf(end) else repr(end) for end in (cell.low, cell.high))
    return cell.before if isinstance(cell, Change) else cell.value
