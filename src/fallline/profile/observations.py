"""Sentences about a profile, each computed from the stored samples: who is faster, what is saved, what was odd."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.numbers import counted, significant, span
from fallline.measure.student import MeanInterval
from fallline.profile.estimate import CLOSE, CPU, ArmEstimate, CellEstimate
from fallline.profile.results import ArmFacts
from fallline.workloads import Workload

MB = 1e6
WIDE = 0.1
"""An interval of speed that is wider than this says too little."""
UNLIKE = 0.01
"""Forward and backward that differ by more than this are not the same work."""
PHASES_MISS = 0.03
"""Phases that miss more of a step than this do not explain it."""
STOPS_MATTERING = 0.01
"""An optimizer that takes a smaller part of the step cannot change the throughput by more."""


def percent(value: float, interval: MeanInterval | None = None) -> str:
    """A gain with its sign, and with the digits that its interval supports.

    >>> percent(0.019, MeanInterval(0.019, 0.006, 0.031, 9)), percent(-0.2)
    ('+1.9 % (+0.6 to +3.1)', '-20.0 %')
    """
    if interval is None or not math.isfinite(interval.low):
        return f"{100 * value:+.1f} %"
    places = 1 if interval.high - interval.low >= 0.002 else 2
    low, high = (f"{100 * end:+.{places}f}" for end in (interval.low, interval.high))
    return f"{100 * value:+.{places}f} % ({low} to {high})"


def verdicts(cell: CellEstimate, workload: Workload) -> list[str]:
    """One sentence per arm: speed, memory, loss, each beside the baseline."""
    if cell.baseline is None:
        return [f"{cell.record.plan.baseline} has no steps, so nothing can be held against it."]
    return [_verdict(cell, arm, workload) for arm in cell.arms.values() if arm.delta is not None]


def _verdict(cell: CellEstimate, arm: ArmEstimate, workload: Workload) -> str:
    base = cell.record.plan.baseline
    parts = [speed(arm, base), _held(cell, arm.label), _loss(arm, workload, cell.record.plan.repeats)]
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


def peak_of(facts: ArmFacts) -> float | None:
    return facts.facts.get("peak_bytes")


def _held(cell: CellEstimate, label: str) -> str:
    own, base = (peak_of(cell.record.arms[one]) for one in (label, cell.record.plan.baseline))
    if own is None or base is None:
        return ""
    difference = own - base
    if abs(difference) < 0.001 * base:
        return "holds as much memory"
    return f"holds {megabytes(abs(difference))} MB {'less' if difference < 0 else 'more'} at its peak"


def megabytes(size: float) -> str:
    """With the digits that are worth reading.

    >>> megabytes(744e6), megabytes(3.25e6), megabytes(123_456)
    ('744', '3.25', '0.123')
    """
    return significant(size / MB, 3) if abs(size) < 1000 * MB else f"{size / MB:,.0f}"


def _loss(arm: ArmEstimate, workload: Workload, repeats: int) -> str:
    found = arm.loss_delta
    if found is None or not arm.values:
        return ""
    seeds = counted(found.count, "seed")
    level = abs(math.fsum(arm.values) / len(arm.values)) or 1.0
    what = workload.metric
    if found.count < 2:
        return f"ends at a {what} {found.value:+.3g} beside it (1 seed says nothing of its error)"
    within = f"{significant(found.low, 2)} to {significant(found.high, 2)}"
    if -CLOSE * level <= found.low and found.high <= CLOSE * level:
        return f"ends at the same {what} (within ±{100 * CLOSE:.0f} %, {seeds})"
    if found.holds(0.0):
        return f"ends at a {what} that cannot be told apart ({within}, {seeds})"
    return f"ends at a {what} {abs(found.value):.2g} {'lower' if found.value < 0 else 'higher'} ({within}, {seeds})"


# ------------------------------------------------------------------ the whole table


def observations(cell: CellEstimate, workload: Workload) -> list[str]:
    """The leader, portability, the largest saving, what the numbers rest on."""
    if cell.baseline is None:
        return []
    found = [
        _leader(cell),
        _saver(cell),
        *allowed(cell),
        *_steps_to_loss(cell),
        *_instability(cell),
        _share(cell),
        *_degenerate(cell, workload),
    ]
    return [line for line in found if line]


def _leader(cell: CellEstimate) -> str:
    unit, _ = cell.unit
    base = cell.record.plan.baseline
    ended = failed(cell)
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
    peaks = {label: peak_of(facts) for label, facts in cell.record.arms.items() if facts.status is None}
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


def _steps_to_loss(cell: CellEstimate) -> list[str]:
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


def loss_curve(cell: CellEstimate, label: str, repeat: int) -> list[float]:
    steps = [step for step in cell.record.steps if step.arm == label and step.repeat == repeat]
    return [math.nan if step.loss is None else step.loss for step in steps]


def smoothed(losses: Sequence[float], over: int = 5) -> list[float]:
    """Means over the last steps: batches differ by more than steps do."""
    return [
        math.fsum(part) / len(part) for at in range(len(losses)) if (part := losses[max(0, at + 1 - over) : at + 1])
    ]


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


def _degenerate(cell: CellEstimate, workload: Workload) -> list[str]:
    """Settings under which an optimizer is another one."""
    found = []
    for arm in cell.record.plan.arms:
        if arm.label not in cell.arms:
            continue
        if arm.optimizer in ("qhm", "qhadam") and arm.settings.get("nu") == 1:
            found.append(f"{arm.label}: with nu = 1 QHM is ordinary momentum.")
        if arm.optimizer == "sophiag":
            found.append(_sophia(cell, arm.label, workload))
    return found


def _sophia(cell: CellEstimate, label: str, workload: Workload) -> str:
    from fallline.training.curvature import EVERY
    from fallline.training.phases import CURVATURE

    updates = sum(CURVATURE in step.seconds for step in cell.record.steps if step.arm == label)
    if not updates:
        return f"{label}: no Hessian update was due in so few steps, so it ran as sign-momentum."
    on = (
        "labels drawn from the model"
        if workload.sampled_loss
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
    peaks = {label: peak_of(facts) for label, facts in cell.record.arms.items()}
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


SPIKE = 6.0
"""A loss so many typical deviations above the median of those before it is a spike."""
BEFORE = 20
LEAST_BEFORE = 8


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


def _instability(cell: CellEstimate) -> list[str]:
    """Arms whose loss jumped, or that diverged."""
    counts = {
        label: sum(spikes(loss_curve(cell, label, repeat)) for repeat in range(cell.record.plan.repeats))
        for label in cell.arms
    }
    told = [f"{label} {counted(count, 'time')}" for label, count in counts.items() if count]
    lines = [f"Loss spikes: {', '.join(told)}; the others have none."] if told else []
    return lines


# ------------------------------------------------------------------ reservations


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


def failed(cell: CellEstimate) -> dict[str, str]:
    """Arms that did not run to the end, and why."""
    return {label: facts.status for label, facts in cell.record.arms.items() if facts.status is not None}
