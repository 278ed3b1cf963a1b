"""Sentences about tables, computed from them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from fallline.document.numbers import counted
from fallline.measure.stats import sentence, spread
from fallline.step.analyse import CellResult, TableResult
from fallline.step.plan import PROBE

MOST_LISTED = 6
BUSY, ENOUGH = 0.10, 10
"""The spread of the probe's samples that shows other work, and the fewest samples of a cell that count."""
COMPILES = 0.5
"""A first step that takes this many seconds longer than the others compiled something."""
SIZES = (
    ("up to 1 M parameters", 0, 1e6),
    ("1 to 10 M parameters", 1e6, 1e7),
    ("10 to 100 M parameters", 1e7, 1e8),
    ("more than 100 M parameters", 1e8, float("inf")),
)


def wins(table: TableResult) -> dict[str, list[CellResult]]:
    """Implementation → the cells it wins."""
    return {name: [row for row in table.decided if row.winner == name] for name in table.arms}


def ties(table: TableResult) -> list[CellResult]:
    return [row for row in table.decided if row.tied]


def who_wins(table: TableResult) -> str:
    """``compiled wins nowhere; fused wins 28 of 30 cells; 2 ties (1 × 16384: compiled = fused)``."""
    count = len(table.decided)
    parts = []
    for name, rows in wins(table).items():
        if not any(row.arms[name].counts for row in table.decided):
            continue
        won = "nowhere" if not rows else f"{len(rows)} of {count} cells" if count > 1 else "the only cell"
        parts.append(f"{name} wins {won}")
    tied = ties(table)
    if tied:
        listed = "; ".join(f"{row.cell.label}: {row.verdict()}" for row in tied[:MOST_LISTED])
        more = f"; and {len(tied) - MOST_LISTED} more" if len(tied) > MOST_LISTED else ""
        parts.append(f"{len(tied)} {'tie' if len(tied) == 1 else 'ties'} ({listed}{more})")
    else:
        parts.append("no ties")
    if table.set_aside:
        parts.append(f"{len(table.set_aside)} set aside by a gate")
    return "; ".join(parts) + "."


def region(rows: Sequence[CellResult]) -> str:
    """The place of cells in a grid, ``1, 2 tensors of 16384, 65536``; for models, a list of them."""
    if not rows:
        return "nowhere"
    if any(row.cell.size is None for row in rows):
        return ", ".join(row.cell.label for row in rows)
    parts = []
    by_size: dict[int, list[int]] = {}
    for row in rows:
        by_size.setdefault(row.cell.size or 0, []).append(row.cell.tensors)
    # Sizes with the same counts are listed together.
    together: dict[tuple[int, ...], list[int]] = {}
    for size, counts in sorted(by_size.items()):
        together.setdefault(tuple(sorted(counts)), []).append(size)
    for many, sizes in together.items():
        noun = "tensor" if many == (1,) else "tensors"
        parts.append(f"{_listed(many)} {noun} of {_listed(sizes)}")
    return "; ".join(parts)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def good_and_poor(table: TableResult, name: str) -> list[str]:
    """Where an implementation is fastest or ties, and where it is the slowest."""
    good = [row for row in table.decided if name in (row.fastest, *row.tied)]
    poor = [row for row in table.decided if max(row.medians, key=row.medians.__getitem__) == name]
    return [f"{name} is fastest or tied: {region(good)}.", f"{name} is the slowest: {region(poor)}."]


def regions(table: TableResult) -> list[str]:
    """Where each of several winners wins; nothing if one wins every cell that has a winner."""
    won = {name: rows for name, rows in wins(table).items() if rows}
    if len(won) < 2:
        return []
    return [f"{table.title}: {name} wins {region(rows)}." for name, rows in won.items()]


def told_apart(table: TableResult) -> list[str]:
    """Ties in full, with the samples that would settle them; for a single row, all comparisons."""
    found = []
    for row in table.decided:
        first = row.fastest
        assert first is not None  # a decided row has one
        others = [name for name, arm in row.arms.items() if arm.counts and name != first]
        for other in others if len(table.rows) == 1 else row.tied:
            text = sentence(first, other, row.compare(first, other), unit=" ms", corrected_p=row.p(first, other))
            found.append(f"{row.cell.label}{', flushed' if row.cell.flush else ''}: {text}.")
    if len(found) > MOST_LISTED:
        return [*found[:MOST_LISTED], f"And {len(found) - MOST_LISTED} more such pairs; --csv has all numbers."]
    return found


def recommendations(tables: Sequence[TableResult]) -> list[str]:
    """One sentence per model size and optimizer.

    It names all implementations that are fastest or tied in every cell, or the one whose worst cell is closest to the
    fastest; it gives no advice if all tie.
    """
    parts: dict[str, list[TableResult]] = {}
    for table in tables:
        for optimizer, part in table.parts().items():
            parts.setdefault(optimizer, []).append(part)
    found = []
    for words, least, most in SIZES:
        for optimizer, its in parts.items():
            here = [row for table in its for row in table.decided if least <= row.cell.elements < most]
            if here:
                found.append(_recommend(f"{words} with {optimizer}" if len(parts) > 1 else words, here))
    return found


def _recommend(words: str, rows: Sequence[CellResult]) -> str:
    names = [name for name in rows[0].arms if all(name in row.arms and row.arms[name].counts for row in rows)]
    if not names:
        return f"For {words}: no implementation was measured in all of {len(rows)} cells."
    first = {name: sum(name in (row.fastest, *row.tied) for row in rows) for name in names}
    always = [name for name, count in first.items() if count == len(rows)]
    if len(always) > 1 and set(always) == {name for row in rows for name in row.medians}:
        return f"For {words} no difference was found: {', '.join(always)} tie in {len(rows)} of {len(rows)} cells."
    if always:  # small differences between them are noise
        return f"For {words} take {' or '.join(always)}: fastest or tied in {len(rows)} of {len(rows)} cells."
    worst = {name: max(rows, key=lambda row: _behind(row, name)) for name in names}
    best = min(names, key=lambda name: _behind(worst[name], name))
    text = f"For {words} take {best}: fastest or tied in {first[best]} of {len(rows)} cells"
    row = worst[best]
    if row.fastest is None or row.fastest == best:
        return text + "."
    found = row.compare(row.fastest, best)
    return (
        f"{text}, at worst {found.ratio.short('×')} the time of {row.fastest} "
        f"({found.second.short()} against {found.first.short()} ms on {row.cell.label})."
    )


def _behind(row: CellResult, name: str) -> float:
    return row.medians[name] / min(row.medians.values())


def measured_twice(tables: Sequence[TableResult]) -> list[str]:
    """Cells whose first times a gate did not believe."""
    facts = (row.record.facts for table in tables for row in table.rows)
    reasons = [again for fact in facts if (again := fact.get("again"))]
    if not reasons:
        return []
    cells = "1 cell was" if len(reasons) == 1 else f"{len(reasons)} cells were"
    return [f"{cells} measured a second time, because the first times could not all be true: {reasons[0]}"]


def disturbed(tables: Sequence[TableResult]) -> list[str]:
    """Whether other work kept the machine busy, judged by the probe, whose work is always the same."""
    probes = [row.record.arms[PROBE].seconds for table in tables for row in table.rows if PROBE in row.record.arms]
    spreads = [spread(seconds) for seconds in probes if len(seconds) >= ENOUGH]
    if not spreads or statistics.median(spreads) <= BUSY:
        return []
    return [
        f"the machine was busy: half of the probe's samples lie more than {statistics.median(spreads):.0%} from their "
        "median, 1 to 6 % on a quiet one; stop other work, or times and speeds are not those of this machine"
    ]


def busy(tables: Sequence[TableResult]) -> list[str]:
    """Cells without a verdict because the machine had other work to do."""
    rows = [row for table in tables for row in table.rows]
    reasons = [row.busy for row in rows if row.busy]
    if not reasons:
        return []
    cells = counted(len(reasons), "cell")
    return [f"{cells} of {len(rows)} set aside, {reasons[0]}; --fresh measures again, when the machine is quiet"]


def nothing_compared(tables: Sequence[TableResult]) -> str:
    """The last sentence if there is no winner."""
    rows = [row for table in tables for row in table.rows]
    if any(row.busy for row in rows):
        return (
            "No verdict: the machine was busy with other work, and times taken meanwhile are not those of this machine."
        )
    timed = {name for row in rows for name in row.medians}
    if not timed:
        return "Nothing could be timed; the notes say why."
    if len(timed) == 1:
        return f"{timed.pop()} alone was timed: there is nothing to compare it with."
    return "Nothing could be compared; the notes say why."


def compile_times(tables: Iterable[TableResult], compiles: Sequence[str]) -> list[str]:
    """The first steps of implementations that compile, apart from all other times."""
    found: dict[str, list[float]] = {}
    for table in tables:
        for row in table.rows:
            for name, arm in row.arms.items():
                if name in compiles and arm.first_seconds is not None and arm.seconds is not None:
                    found.setdefault(name, []).append(max(0.0, arm.first_seconds - arm.seconds.value))
    return [
        f"{name}: compiling took {sum(one for one in seconds if one > COMPILES):.1f} s in all, in "
        f"{sum(one > COMPILES for one in seconds)} of {len(seconds)} cells; never part of the times above."
        for name, seconds in found.items()
    ]
