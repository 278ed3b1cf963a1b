"""Reservations about the numbers of a profile: assumptions that were tested, a busy machine, missing blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fallline.document.numbers import counted, span
from fallline.profile.estimate import CPU, CellEstimate
from fallline.profile.subject import missing_note

UNLIKE = 0.01
"""Forward and backward that differ by more than this are not the same work."""
PHASES_MISS = 0.03
"""Phases that miss more of a step than this do not explain it."""


def reservations(cells: Sequence[CellEstimate]) -> list[str]:
    """Reservations that a reader should know before believing the numbers of these cells."""
    notes = [_assumption(cells)]
    on_cpu = [100 * cell.off_processor for cell in cells if cell.clock == CPU]
    if on_cpu:
        notes.append(
            f"the process had no processor for {span(on_cpu)} % of the time, so CPU time is shown in place of the wall "
            "clock"
        )
    blocks = [facts for cell in cells for facts in cell.record.blocks.values()]
    if busy := [facts["busy"] for facts in blocks if facts.get("busy")]:
        notes.append(f"the machine was busy in {len(busy)} of {len(blocks)} blocks ({busy[0]})")
    for cell in cells:
        notes += _of_arms(cell)
    if all(cell.record.subject is None for cell in cells):
        notes.append(missing_note(cells[0].record.plan))
    return [note for note in dict.fromkeys(notes) if note]


def _of_arms(cell: CellEstimate) -> list[str]:
    notes = []
    counts, done = cell.record.counts, len(cell.record.blocks)
    if counts is not None and not cell.record.is_complete:
        at = f" at {cell.record.plan.label}" if cell.record.plan.label else ""
        notes.append(
            f"{done} of {cell.record.plan.repeats * counts.blocks} blocks were measured{at}; the same command takes "
            "the rest"
        )
    if abs(cell.phase_gap) > PHASES_MISS:
        notes.append(f"phases add up to {100 * (1 + cell.phase_gap):.1f} % of the measured steps")
    for label, facts in cell.record.arms.items():
        if missing := facts.facts.get("gpu_missing"):
            notes.append(f"the use of the GPU could not be read: {missing}")
        modelled, held = facts.facts.get("modelled_state_bytes"), facts.facts.get("state_bytes")
        if modelled is not None and modelled != held:
            notes.append(f"{label}: states hold {held:,} bytes, the model says {modelled:,}")
        if skipped := sum(value for name, value in facts.facts.items() if name.startswith("skipped.")):
            notes.append(f"{label}: the loss scaler skipped {counted(skipped, 'step')}; a skipped step costs less")
    return notes


def _assumption(cells: Sequence[CellEstimate]) -> str:
    """Whether forward and backward are the same work in every arm, which differences of throughput rest on."""
    known = [
        (cell.record.plan.label, label, arm.alike)
        for cell in cells
        for label, arm in cell.arms.items()
        if arm.alike is not None and arm.alike.low > 0 and math.isfinite(arm.alike.high)
    ]
    if not known:
        return ""
    bound = max(max(found.high - 1, 1 - found.low) for _, _, found in known)
    text = (
        "differences of throughput are those of the step phases over common data, forward and backward phases; "
        f"measured apart, forward and backward of all arms agree within {100 * bound:.1f} %"
    )
    different = [
        f"{label}{f' at {place}' if place else ''} by {100 * (found.value - 1):+.1f} %"
        for place, label, found in known
        if not found.holds(1.0) and abs(found.value - 1) > UNLIKE
    ]
    if different:
        return f"{text}, and differ for {', '.join(different)}: there whole steps count (cache or memory spills over)"
    return text
