"""The verdicts of a profile: one sentence per arm with its speed, memory and loss beside the baseline."""

from __future__ import annotations

import math

from fallline.document.numbers import counted, significant
from fallline.measure.student import MeanInterval
from fallline.profile.estimate import CLOSE, ArmEstimate, CellEstimate
from fallline.profile.quantities import megabytes, percent
from fallline.profile.subject import Subject

WIDE = 0.1
"""An interval of speed that is wider than this says too little."""


def verdicts(cell: CellEstimate, subject: Subject) -> list[str]:
    """One sentence per arm: speed, memory, loss, each beside the baseline."""
    if cell.baseline is None:
        return [f"{cell.record.plan.baseline} has no steps, so nothing can be held against it."]
    return [_verdict(cell, arm, subject) for arm in cell.arms.values() if arm.delta is not None]


def _verdict(cell: CellEstimate, arm: ArmEstimate, subject: Subject) -> str:
    base = cell.record.plan.baseline
    parts = [speed(arm, base), _held(cell, arm.label), _loss(arm, subject)]
    told = [part for part in parts if part]
    text = ", ".join(told[:-1]) + f", and {told[-1]}" if len(told) > 2 else " and ".join(told)
    return f"{arm.label} {text}."


def speed(arm: ArmEstimate, base: str) -> str:
    delta = arm.delta
    assert delta is not None
    if not math.isfinite(delta.low):
        return f"cannot be held against {base}: one block of rounds says nothing of its error"
    if delta.low >= -CLOSE and delta.high <= CLOSE:
        return f"is as fast as {base} here (within ±{100 * CLOSE:.0f} %: {percent(delta.value, delta)})"
    if delta.low > 0:
        return f"is faster than {base} by {percent(delta.value, delta)}"
    if delta.high < 0:
        return f"is slower than {base} by {percent(-delta.value, _negated(delta))}".replace("+", "")
    more = "; more --steps or --minutes narrow that" if delta.high - delta.low > WIDE else ""
    return f"cannot be told apart from {base} in speed ({percent(delta.value, delta)}{more})"


def _negated(found: MeanInterval) -> MeanInterval:
    return MeanInterval(-found.value, -found.high, -found.low, found.count)


def _held(cell: CellEstimate, label: str) -> str:
    own, base = (cell.record.arms[one].peak for one in (label, cell.record.plan.baseline))
    if own is None or base is None:
        return ""
    difference = own - base
    if abs(difference) < 0.001 * base:
        return "holds as much memory"
    return f"holds {megabytes(abs(difference))} MB {'less' if difference < 0 else 'more'} at its peak"


def _loss(arm: ArmEstimate, subject: Subject) -> str:
    found = arm.loss_delta
    if found is None or not arm.values:
        return ""
    seeds = counted(found.count, "seed")
    level = abs(math.fsum(arm.values) / len(arm.values)) or 1.0
    metric = subject.metric
    if found.count < 2:
        return f"ends at a {metric} {found.value:+.3g} beside it (1 seed says nothing of its error)"
    within = f"{significant(found.low, 2)} to {significant(found.high, 2)}"
    if -CLOSE * level <= found.low and found.high <= CLOSE * level:
        return f"ends at the same {metric} (within ±{100 * CLOSE:.0f} %, {seeds})"
    if found.holds(0.0):
        return f"ends at a {metric} that cannot be told apart ({within}, {seeds})"
    return f"ends at a {metric} {abs(found.value):.2g} {'lower' if found.value < 0 else 'higher'} ({within}, {seeds})"
