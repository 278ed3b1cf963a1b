"""The rungs of a ladder: one workload, entered once for each of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fallline.race.plan.entries import Entry
from fallline.workloads.loading import STEPS_AXIS, load_changed

MOST_RUNGS = 8


class BadLadder(ValueError):
    """A ladder that cannot be raced; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Ladder:
    """An axis and sizes on it, increasing: factors of the budget, or arguments of the workload's function."""

    axis: str
    sizes: tuple[float, ...]


def parse(text: str) -> Ladder:
    """``steps=0.5,1,2``.

    >>> parse("width=2,1")
    Ladder(axis='width', sizes=(1.0, 2.0))
    """
    axis, _, given = text.partition("=")
    example = "give an axis and at least two sizes, as in steps=0.5,1,2"
    try:
        sizes = sorted(float(size) for size in given.split(","))
    except ValueError:
        raise BadLadder(f"{text!r} is no ladder; {example}") from None
    if not axis.isidentifier():
        raise BadLadder(f"{text!r} names no axis; {example}")
    if len(set(sizes)) < 2 or len(set(sizes)) < len(sizes):
        raise BadLadder(f"{text!r} has {'a size twice' if len(sizes) > 1 else 'one size'}; {example}")
    if len(sizes) > MOST_RUNGS:
        raise BadLadder(f"{text!r} has {len(sizes)} rungs; give at most {MOST_RUNGS}")
    if not all(0 < size < math.inf for size in sizes):
        raise BadLadder(f"{text!r}: a size is a number > 0; {example}")
    return Ladder(axis, tuple(sizes))


def entries(base: Entry, ladder: Ladder) -> list[Entry]:
    """An entry for every rung.  None has a target: the reference sets one on each, as one for all would be too hard for
    the short rungs and met at once on the long ones."""
    made = []
    for size in ladder.sizes:
        changes: dict[str, Any] = {
            **base.changes,
            **(_longer(base, size) if ladder.axis == STEPS_AXIS else {}),
            "name": f"{base.name}{label(ladder.axis, size)}",
            "target": None,
            "rung": {"axis": ladder.axis, "size": size, "of": base.name},
        }
        made.append(Entry(base.spec, load_changed(base.spec, changes), changes))
    budgets = [entry.workload.max_steps for entry in made]
    if ladder.axis == STEPS_AXIS and len(set(budgets)) < len(budgets):
        raise BadLadder(f"{base.name} has {base.workload.max_steps} steps: two of the rungs have the same budget")
    return made


def label(axis: str, size: float) -> str:
    """A rung after the name of its workload: a factor of the budget, or a size."""
    return f"×{size:g}" if axis == STEPS_AXIS else f" {axis}={size:g}"


def _longer(base: Entry, factor: float) -> dict[str, int]:
    """The budget, with as many evaluations as before."""
    assert base.workload.eval_every is not None
    every, steps = (max(1, round(factor * each)) for each in (base.workload.eval_every, base.workload.max_steps))
    return {"max_steps": steps, "eval_every": min(every, steps)}


def rungs_of(workloads: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """Workload → size, increasing, where all of a race's workloads are rungs; None of any other race."""
    found = {name: _rung(row) for name, row in workloads.items()}
    if len(found) < 2 or not all(found.values()):
        return None
    sizes = {name: float(rung["size"]) for name, rung in found.items() if rung is not None}
    return dict(sorted(sizes.items(), key=lambda pair: pair[1]))


def axis_of(workloads: Iterable[Mapping[str, Any]]) -> str:
    return next(str(rung["axis"]) for row in workloads if (rung := _rung(row)) is not None)


def _rung(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return dict(row.get("changes") or {}).get("rung")
