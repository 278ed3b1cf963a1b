"""Sentences about the arms together: who leads, what is saved and what that buys, which settings are degenerate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fallline.profile.estimate import ArmEstimate, CellEstimate
from fallline.profile.loss_curves import instability, steps_to_loss
from fallline.profile.quantities import megabytes, percent
from fallline.profile.subject import Subject
from fallline.training.curvature import EVERY
from fallline.training.phases import CURVATURE

STOPS_MATTERING = 0.01
"""An optimizer that takes a smaller part of the step cannot change the throughput by more."""


def observations(cell: CellEstimate, subject: Subject) -> list[str]:
    """The leader, portability, the largest saving, what the numbers rest on."""
    if cell.baseline is None:
        return []
    found = [
        _leader(cell),
        _saver(cell),
        *allowed(cell),
        *steps_to_loss(cell),
        *instability(cell),
        _share(cell),
        *_degenerate(cell, subject),
    ]
    return [line for line in found if line]


def _leader(cell: CellEstimate) -> str:
    unit, _ = cell.unit
    base = cell.record.plan.baseline
    ended = cell.record.ended
    gains = {label: (arm.delta.value if arm.delta else 0.0) for label, arm in cell.arms.items() if label not in ended}
    if not gains:
        return ""
    leader = max(gains, key=gains.__getitem__)
    ties = [label for label in gains if label != leader and not _apart(cell.arms[leader], cell.arms[label])]
    arm = cell.record.plan.arm(leader)
    portable = f"needs the package {arm.package}" if arm.package else "needs no other package"
    gain = "" if leader == base else f" ({percent(gains[leader], cell.arms[leader].delta)} beside {base})"
    tied = f"; tied with it: {', '.join(ties)}" if ties else "; nobody ties with it"
    return f"The highest {unit} has {leader}{gain}; it {portable}{tied}."


def _apart(leader: ArmEstimate, other: ArmEstimate) -> bool:
    """Whether intervals against the baseline exclude each other; a baseline has no interval."""
    one, two = leader.delta, other.delta
    if one is None or two is None:
        known = one or two
        return known is not None and not known.holds(0.0)
    return one.low > two.high or two.low > one.high


def _saver(cell: CellEstimate) -> str:
    peaks = {label: facts.peak for label, facts in cell.record.arms.items() if facts.status is None}
    known = {label: peak for label, peak in peaks.items() if peak is not None}
    base = cell.record.plan.baseline
    if base not in known or len(known) < 2:
        return ""
    least = min(known, key=known.__getitem__)
    if known[least] >= known[base]:
        return f"None holds less at its peak than {base} ({megabytes(known[base])} MB in tensors)."
    part = 100 * (1 - known[least] / known[base])
    return (
        f"The least memory holds {least}: {megabytes(known[least])} MB in tensors at its peak, {part:.1f} % less than "
        f"{base} ({megabytes(known[base])})."
    )


def _share(cell: CellEstimate) -> str:
    shares = {label: arm.share for label, arm in cell.arms.items() if math.isfinite(arm.share)}
    base = cell.record.plan.baseline
    if base not in shares:
        return ""
    own = shares[base]
    text = f"The optimizer is {100 * own:.1f} % of a step of {base}"
    if own <= STOPS_MATTERING:
        return f"{text}: no optimizer can gain more than that here."
    most = max(shares, key=shares.__getitem__)
    return f"{text}, and at most {100 * shares[most]:.1f} % ({most}); below 1 % its speed stops mattering."


def _degenerate(cell: CellEstimate, subject: Subject) -> list[str]:
    """Settings under which an optimizer is another one."""
    found = []
    for arm in cell.record.plan.arms:
        if arm.label not in cell.arms:
            continue
        if arm.optimizer in ("qhm", "qhadam") and arm.settings.get("nu") == 1:
            found.append(f"{arm.label}: with nu = 1 QHM is ordinary momentum.")
        if arm.optimizer == "sophiag":
            found.append(_sophia(cell, arm.label, subject))
    return found


def _sophia(cell: CellEstimate, label: str, subject: Subject) -> str:
    updates = sum(CURVATURE in step.seconds for step in cell.record.steps if step.arm == label)
    if not updates:
        return f"{label}: no Hessian update was due in so few steps, so it ran as sign-momentum."
    on = (
        "labels drawn from the model"
        if subject.draws_labels
        else "the true labels (the empirical Fisher), as the workload cannot draw any"
    )
    cost = cell.arms[label].phases[CURVATURE]
    charged = f"{1e3 * cost:.3g} ms per step are charged for them"
    return f"{label}: {updates} Hessian updates, one every {EVERY} steps on {on}; {charged}."


def allowed(cell: CellEstimate) -> list[str]:
    """The arms that fit into the memory budget, and what the saved memory buys."""
    budget, largest = cell.record.facts.get("budget"), cell.record.facts.get("largest")
    if budget is None or largest is None:
        return []
    place = f"{cell.record.plan.label}: " if cell.record.plan.label else ""
    peaks = {label: facts.peak for label, facts in cell.record.arms.items()}
    fits = [label for label, peak in peaks.items() if peak is not None and peak <= budget]
    beyond = [label for label, peak in peaks.items() if peak is not None and peak > budget]
    told = [f"{place}within {budget / 1e9:g} GB in tensors fit {', '.join(fits) or 'none'}"]
    told[0] += f"; {', '.join(beyond)} do not fit." if beyond else "; nobody is beyond it."
    if missing := cell.record.facts.get("largest_missing"):
        told.append(f"{place}larger batches could not be predicted: {missing}.")
    told += [f"{place}{_largest(label, fit)}." for label, fit in largest.items()]
    return told


def _largest(label: str, fit: Mapping[str, Any]) -> str:
    if not fit["batch"]:
        return f"{label} does not fit with a batch of 1"
    text = f"{label} fits up to a batch of {fit['batch']} ({megabytes(fit['predicted'])} MB by the model"
    if fit.get("failed"):
        return f"{text}; the run: {fit['failed']})"
    return f"{text}, {megabytes(fit['measured'])} MB in a run)" if fit.get("measured") else f"{text})"
