"""The plan of a run: cells, each with its arms, and the memory that they take."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.numbers import counted
from fallline.measure import machine
from fallline.measure.clock import flush_bytes
from fallline.measure.traffic import AS_PARAMETERS, WIDTHS, Bytes, bytes_per_parameter
from fallline.step.implementations import Missing, named
from fallline.step.shapes import Shapes
from fallline.step.temporaries import step_temporaries

PROBE = "probe"
PART = 1 << 25
"""The elements whose states are made at once."""
PROBE_CACHES = 4
"""The probe goes through at most this multiple of the last-level cache. Beyond twice the cache the speed stays the same
(45 to 47 GB/s for 64 to 384 MiB on one machine), and more would only take memory."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """One column of a table."""

    label: str
    optimizer: str
    implementation: str
    options: tuple[tuple[str, Any], ...] = ()
    state_dtype: str = "float32"

    def states_of(self, dtype: str) -> str:
        """The actual format of its states for parameters of this dtype, whatever was asked for."""
        states = named(self.implementation).states or self.state_dtype
        return dtype if states == AS_PARAMETERS else states

    def bytes(self, dtype: str) -> Bytes:
        states = named(self.implementation).states or self.state_dtype
        return bytes_per_parameter(self.optimizer, dtype, states, **dict(self.options))

    def shares_states(self, dtype: str) -> bool:
        """Whether its states can share the memory of other arms; packed codes and states of other packages cannot."""
        return self.states_of(dtype) in WIDTHS or (named(self.implementation).ours and self.state_dtype == "int8")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row of a table: shapes, and the conditions under which they are stepped."""

    label: str
    shapes: Shapes
    arms: tuple[Arm, ...]
    table: str
    """The table of the cell; rows of a table differ only in their shapes."""
    dtype: str = "float32"
    threads: int = 1
    flush: bool = False
    size: int | None = None
    """The elements of each tensor, in a grid."""
    steps: int | None = None
    """The exact number of timed steps of each arm; None takes as many as a verdict needs."""
    pinned: bool = False
    """Whether threads stay on the first processors."""

    @property
    def tensors(self) -> int:
        return len(self.shapes)

    @property
    def elements(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def groups(self) -> dict[str, list[str]]:
        """Optimizer → the labels of its arms; only arms of one optimizer are compared."""
        found: dict[str, list[str]] = {}
        for arm in self.arms:
            found.setdefault(arm.optimizer, []).append(arm.label)
        return found

    @property
    def key(self) -> str:
        """A name for the measurement, which is the same in every run that measures the same."""
        facts = dataclasses.asdict(self)
        del facts["label"], facts["table"]
        # Options that are not used are not part of the name, so that files from before an option stay valid.
        for option in ("steps", "pinned"):
            if not facts[option]:
                del facts[option]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:20]

    def working_set(self) -> int:
        """The bytes that a step goes through: parameters, gradients, and the largest set of states."""
        states = max(arm.bytes(self.dtype).states for arm in self.arms)
        return round(self.elements * (2 * WIDTHS[self.dtype] + states))

    def held(self) -> float:
        """The bytes in use while the cell is measured: the cell, and states once per format or per arm."""
        sets: dict[str, float] = {}
        for arm in self.arms:
            which = arm.states_of(self.dtype) if arm.shares_states(self.dtype) else f"those of {arm.label}"
            sets[which] = max(sets.get(which, 0.0), arm.bytes(self.dtype).states)
        return self.elements * (2 * WIDTHS[self.dtype] + sum(sets.values()))

    def temporaries(self, arm: Arm) -> int:
        try:
            return step_temporaries(
                arm.implementation, arm.optimizer, arm.options, self.shapes, self.dtype, arm.state_dtype
            )
        except Missing:
            return 0

    def probe_bytes(self) -> int:
        """The bytes that the probe goes through: as many as the cell, up to a limit."""
        return min(self.working_set(), PROBE_CACHES * machine.last_level_cache())

    def instruments(self) -> int:
        """The bytes of the measurement itself: the probe, and the memory that flushes caches."""
        return self.probe_bytes() + (flush_bytes(machine.last_level_cache()) if self.flush else 0)

    def needed(self) -> int:
        """The bytes at the peak."""
        return max((self.needed_by(arm) for arm in self.arms), default=0)

    def needed_by(self, arm: Arm) -> int:
        """The bytes of one arm at its peak: while its states are made, or while it is timed beside the probe."""
        made_twice = min(self.elements, PART) * arm.bytes(self.dtype).states
        return round(self.held() + max(made_twice, self.instruments()) + self.temporaries(arm))


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cells of a run, in the order of its tables."""

    name: str
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    with_memory: bool = False
    """Whether memory is measured, too; configurations that do not fit are then modelled, not refused."""

    @property
    def tables(self) -> dict[str, list[Cell]]:
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.table, []).append(cell)
        return found

    def family(self, cell: Cell) -> int:
        """The number of comparisons in the cell's table: all pairs of arms of one optimizer, in all its rows."""
        return sum(math.comb(len(names), 2) for other in self.tables[cell.table] for names in other.groups.values())


class DoesNotFit(Exception):
    """A plan that needs more memory than there is."""


def check_memory(cells: Sequence[Cell], available: int | None = None) -> None:
    """Refuses a plan that does not fit, before anything is measured."""
    free = machine.available_memory() if available is None else available
    if free is None or not cells:
        return
    # Held memory is quickly known; temporaries are counted only if it fits.
    for needed in (Cell.held, Cell.needed):
        largest = max(cells, key=needed)
        if needed(largest) > free:
            raise DoesNotFit(
                f"{largest.label} needs {needed(largest) / 1e9:.1f} GB with the implementations asked for, and "
                f"{free / 1e9:.1f} GB are available; leave out the largest sizes or an implementation"
            )


def arms_of(
    optimizer: str, implementations: Sequence[str], options: Mapping[str, Any], state_dtype: str
) -> tuple[Arm, ...]:
    chosen = tuple(sorted(options.items()))
    return tuple(Arm(named(name).name, optimizer, named(name).name, chosen, state_dtype) for name in implementations)


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The conditions of a request: those that all cells share, and those that make separate tables."""

    dtype: str = "float32"
    threads: tuple[int, ...] = (1,)
    flush: bool | None = None
    """True or False for all cells; None flushes for all, and also shows cells that fit the cache without flushing."""
    steps: int | None = None
    pinned: bool = False


def expand(rows: Sequence[Cell], conditions: Conditions, title: str) -> list[Cell]:
    """Each row under all conditions, table by table."""
    cache = machine.last_level_cache()
    found = []
    for threads in conditions.threads:
        for flush in (True, False) if conditions.flush is None else (conditions.flush,):
            table = f"{title}, {_in_words(conditions, threads, flush)}"
            for row in rows:
                if conditions.flush is None and not flush and row.working_set() > cache:
                    continue
                found.append(
                    dataclasses.replace(
                        row,
                        table=table,
                        dtype=conditions.dtype,
                        threads=threads,
                        flush=flush,
                        steps=conditions.steps,
                        pinned=conditions.pinned,
                    )
                )
    return found


def _in_words(conditions: Conditions, threads: int, flush: bool) -> str:
    parts = [conditions.dtype, counted(threads, "thread") + (", pinned" if conditions.pinned else "")]
    parts.append(_flushed(flush, conditions))
    if conditions.steps:
        parts.append(f"{counted(conditions.steps, 'step')} of each")
    return ", ".join(parts)


def _flushed(flush: bool, conditions: Conditions) -> str:
    if flush:
        return "caches flushed before every step"
    return "in cache, no flush" if conditions.flush is None else "no flush"


def grid(tensors: Sequence[int], sizes: Sequence[int], arms: tuple[Arm, ...]) -> list[Cell]:
    """Rows grouped by size, then by count."""
    return [Cell(f"{count} × {size}", ((size,),) * count, arms, "", size=size) for size in sizes for count in tensors]
