"""How far ``fallline step`` is, and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from fallline.document.numbers import counted, time_left

if TYPE_CHECKING:
    from fallline.step.plan import Cell
    from fallline.step.results import CellRecord


SILENCE, STANDSTILL = 60.0, 1.0
"""Seconds after which a line, or the bar where there is one, says how far a long cell is."""
ENOUGH = 0.05
"""The part of all elements that must have been gone through before the time left is told."""


class Progress:
    """A bar with the time left on a terminal, lines elsewhere, at least one per cell; all of it on stderr."""

    def __init__(self, left: Sequence[Cell], quiet: bool):
        self.left, self.quiet = list(left), quiet
        self.total = len(left)
        self._several = len({cell.threads for cell in left}) > 1
        self.finished: list[tuple[Cell, float]] = []
        self.started = self.spoke = 0.0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if not self.quiet and self.left and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
            # It draws between samples only: a thread of its own would draw inside them.
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, cell: Cell, record: CellRecord | None) -> None:
        now = time.perf_counter()
        if record is None:
            self.started = self.spoke = now
            if self._bar is not None:
                self._bar.update(self._task, description=self._place(cell) + self._time_left(), refresh=True)
            return
        self.finished.append((cell, now - self.started))
        self.left.remove(cell)
        if self._bar is not None:
            self._bar.update(self._task, advance=1, refresh=True)
        elif not self.quiet:
            done = f"[{self.total - len(self.left)}/{self.total}]"
            typer.echo(f"{done} {self._place(cell)}: {_ending(record)}{self._time_left()}", err=True)

    def tell_round(self, cell: Cell, done: int, most: int) -> None:
        """How far a cell is, for those that take minutes."""
        now = time.perf_counter()
        if self.quiet or now - self.spoke < (SILENCE if self._bar is None else STANDSTILL):
            return
        self.spoke = now
        text = f"{self._place(cell)}: round {done} of {most}{self._time_left((cell, now - self.started, done / most))}"
        if self._bar is not None:
            self._bar.update(self._task, description=text, refresh=True)
        else:
            typer.echo(f"[{self.total - len(self.left)}/{self.total}] {text}", err=True)

    def _place(self, cell: Cell) -> str:
        threads = f", {counted(cell.threads, 'thread')}" if self._several else ""
        return cell.label + threads + (", flushed" if cell.flush else "")

    def _time_left(self, current: tuple[Cell, float, float] | None = None) -> str:
        left = seconds_left(self.finished, self.left, current)
        if left is None or not self.left:
            return ""
        return f"; {time_left(left)} left"


def _ending(record: CellRecord) -> str:
    if "rounds" in record.facts:
        busy = f"; the machine was busy: {record.facts['busy']}" if record.facts.get("busy") else ""
        return f"{counted(record.facts['rounds'], 'round')}, {record.facts['stopped']}{busy}"
    return f"not timed: {record.facts['wrong'] or 'no implementation could be had'}"


def seconds_left(
    done: Sequence[tuple[Cell, float]], left: Sequence[Cell], current: tuple[Cell, float, float] | None = None
) -> float | None:
    """From the time that the finished cells took, per element and per cell.

    ``current`` is a cell among those left, the seconds it has taken, and how much of it is done: it will take as long
    as its part so far says, and counts as one more finished cell for the others. Nothing is said before enough elements
    have been gone through: small cells say nothing about how long large ones take, and a guess that jumps from seconds
    to an hour is worse than none.
    """
    rest = list(left)
    if current is not None:
        cell, taken, part = current
        done = [*done, (cell, taken / part)]
        rest.remove(cell)
    known, unknown = (sum(cell.elements for cell in cells) for cells in ([cell for cell, _ in done], rest))
    if not done or known < ENOUGH * (known + unknown):
        return None
    # Two unknowns, each bounded below by what it would be if it were alone.
    per_cell = min(seconds for _, seconds in done)
    above = sum(max(0.0, seconds - per_cell) for _, seconds in done)
    per_element = above / max(1, known)
    others = sum(per_cell + per_element * cell.elements for cell in rest)
    return others if current is None else others + taken / part - taken
