"""Training losses: their smoothed curves, the steps to the baseline's last loss, and spikes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from fallline.document.numbers import counted
from fallline.profile.estimate import CellEstimate

SPIKE = 6.0
"""A loss so many typical deviations above the median of those before it is a spike."""
BEFORE = 20
LEAST_BEFORE = 8


def loss_curve(cell: CellEstimate, label: str, repeat: int) -> list[float]:
    steps = [step for step in cell.record.steps if step.arm == label and step.repeat == repeat]
    return [math.nan if step.loss is None else step.loss for step in steps]


def smoothed(losses: Sequence[float], over: int = 5) -> list[float]:
    """Means over the last steps: batches differ by more than steps do."""
    return [
        math.fsum(part) / len(part) for at in range(len(losses)) if (part := losses[max(0, at + 1 - over) : at + 1])
    ]


def steps_to_loss(cell: CellEstimate) -> list[str]:
    """After how many steps others have the training loss at which the baseline ends."""
    base = cell.record.plan.baseline
    reached: dict[str, list[tuple[int | None, int]]] = {}
    for repeat in range(cell.record.plan.repeats):
        curves = {label: smoothed(loss_curve(cell, label, repeat)) for label in cell.arms}
        if len(curves.get(base, ())) < 10:
            continue
        goal = curves[base][-1]
        for label, curve in curves.items():
            first = next((step + 1 for step, loss in enumerate(curve) if loss <= goal), None)
            reached.setdefault(label, []).append((first, len(curves[base])))
    texts = []
    for label, found in reached.items():
        steps = [first for first, _ in found if first is not None]
        if label == base or not found:
            continue
        whole = found[0][1]
        if len(steps) < len(found):
            texts.append(f"{label} not in {whole} steps ({len(steps)} of {len(found)} repeats)")
        else:
            texts.append(
                f"{label} in {min(steps)} to {max(steps)}" if min(steps) < max(steps) else f"{label} in {steps[0]}"
            )
    if not texts:
        return []
    whole = next(iter(reached.values()))[0][1]
    return [f"Steps to the training loss at which {base} ends after {whole}: {'; '.join(texts)}."]


def spikes(losses: Sequence[float]) -> int:
    """How often a loss stands far above those before it; those of one rise count once.

    >>> spikes([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.02, 3.0, 3.1, 1.0, 0.98])
    1
    """
    found, high = 0, False
    for at in range(LEAST_BEFORE, len(losses)):
        window = sorted(value for value in losses[max(0, at - BEFORE) : at] if math.isfinite(value))
        if len(window) < LEAST_BEFORE:
            continue
        middle = statistics.median(window)
        deviation = 1.4826 * statistics.median(abs(value - middle) for value in window)
        is_high = not losses[at] <= middle + SPIKE * max(deviation, 0.02 * abs(middle))
        found += is_high and not high
        high = is_high
    return found


def instability(cell: CellEstimate) -> list[str]:
    """Arms whose loss jumped."""
    counts = {
        label: sum(spikes(loss_curve(cell, label, repeat)) for repeat in range(cell.record.plan.repeats))
        for label in cell.arms
    }
    told = [f"{label} {counted(count, 'time')}" for label, count in counts.items() if count]
    return [f"Loss spikes: {', '.join(told)}; the others have none."] if told else []
