"""Stacked bars as lines of text: where each section begins and ends, without any need of colours."""

from __future__ import annotations

from fallline.document.figures import Bar, StackedBars

FULL = "█"
EIGHTHS = " ▏▎▍▌▋▊▉"
SHADES = "█▒▓░▚▞▤▥"
"""The sections of several bars, one bar a line; with more than eight sections they come again."""
LEAST, MOST = 16, 60
"""The number of columns that the longest bar takes."""


def lines(figure: StackedBars, width: int) -> list[str]:
    """One bar as a staircase, a line for each section; several bars as a line each, with a legend below them.

    >>> from fallline.document.figures import Mark, Part
    >>> bar = Bar("here", [Part("weights", 3.0), Part("states", 6.0), Part("rest", 0.5)])
    >>> for line in lines(StackedBars("m", "Memory", "GB", [bar], [Mark(8.0, "8 GB")]), 50):
    ...     print(line)
    weights  3.00 GB  ██████████
    states   6.00 GB            ████████████████████▎
    rest    0.500 GB                                ██
    in all   9.50 GB                             ╎
                                                 8 GB
    """
    return _staircase(figure, figure.bars[0], width) if len(figure.bars) == 1 else _abreast(figure, width)


def _staircase(figure: StackedBars, bar: Bar, width: int) -> list[str]:
    labels = [part.name for part in bar.parts] + ["in all"]
    amounts = [f"{figure.amount(v)} {figure.unit}" for v in (*(p.value for p in bar.parts), bar.total)]
    stub, amount_room = max(map(len, labels)), max(map(len, amounts))
    room = _room(width - stub - amount_room - 3)
    per_cell = max(figure.longest, *(m.y for m in figure.limits_shown), 0.0) / room or 1.0
    found, start = [], 0.0
    for part, amount in zip(bar.parts, amounts, strict=False):
        drawn = _between(start / per_cell, (start + part.value) / per_cell)
        found.append(f"{part.name:<{stub}} {amount:>{amount_room}}  {drawn}".rstrip())
        start += part.value
    pins, names = _pins(figure, per_cell)
    found.append(f"{labels[-1]:<{stub}} {amounts[-1]:>{amount_room}}  {pins}".rstrip())
    if names:
        found.append(" " * (stub + amount_room + 3) + names)
    return found


def _abreast(figure: StackedBars, width: int) -> list[str]:
    sections = figure.sections
    amounts = [f"{figure.amount(bar.total)} {figure.unit}" for bar in figure.bars]
    stub, amount_room = max(len(bar.name) for bar in figure.bars), max(map(len, amounts))
    room = _room(width - stub - amount_room - 3)
    per_cell = max(figure.longest, *(m.y for m in figure.limits_shown), 0.0) / room or 1.0
    found = []
    for bar, amount in zip(figure.bars, amounts, strict=True):
        drawn, end = "", 0.0
        for part in bar.parts:
            end += part.value
            shade = SHADES[sections.index(part.name) % len(SHADES)]
            drawn += shade * (round(end / per_cell) - len(drawn))
        found.append(f"{bar.name:<{stub}} {amount:>{amount_room}}  {drawn}".rstrip())
    pins, names = _pins(figure, per_cell)
    blank = " " * (stub + amount_room + 3)
    found += [blank + pins, blank + names] if names else []
    legend = [f"{SHADES[at % len(SHADES)]} {name}" for at, name in enumerate(sections)]
    return [*found, "   ".join(legend)]


def _room(columns: int) -> int:
    return max(LEAST, min(MOST, columns))


def _between(start: float, end: float) -> str:
    """Blocks from one column to another: whole ones, and an eighth of one at the end."""
    first = int(start)
    whole = max(0, int(end) - first)
    rest = int((end - int(end)) * len(EIGHTHS)) if end > start else 0
    return " " * first + FULL * whole + EIGHTHS[rest].strip()


def _pins(figure: StackedBars, per_cell: float) -> tuple[str, str]:
    """A sign below each limit, and its name below the sign where there is room."""
    signs, names = "", ""
    for mark in sorted(figure.limits_shown, key=lambda one: one.y):
        at = round(mark.y / per_cell)
        signs = signs.ljust(at) + "╎" if len(signs) <= at else signs
        if not names or len(names) < at:
            names = names.ljust(at) + mark.text
    return signs, names
