"""The tables of a sweep: throughput and its difference in percent and in ms, memory, losses; one row for each size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Missing, Number, Text, number
from fallline.document.numbers import counted
from fallline.profile.estimate import CLOSE, CellEstimate
from fallline.profile.quantities import MB, percent
from fallline.profile.subject import Subject

MS = 1e3


def sweep_head(cells: Sequence[CellEstimate], subject: Subject) -> str:
    """The conditions in a line or two."""
    plan = cells[0].record.plan
    steps = [cell.record.counts.steps for cell in cells if cell.record.counts is not None]
    counts = f"{min(steps)} to {max(steps)}" if steps and min(steps) < max(steps) else f"{max(steps, default=0)}"
    compiled = ", compiled" if plan.compiled else ""
    model = subject.described(cells[0].record.parameters)
    return (
        f"{plan.workload.partition('@')[0]} over {plan.axis}: {model}; {plan.precision}{compiled} on {plan.device}, "
        f"{counted(plan.threads, 'thread')}; data: {subject.data}; {plan.repeats} × {counts} timed steps of each, "
        "interleaved"
    )


def sweep_table(cells: Sequence[CellEstimate]) -> Table:
    """Throughput of each arm; the difference of the others in percent and in ms per step; the optimizer's share."""
    plan = cells[0].record.plan
    others = [label for label in plan.labels if label != plan.baseline]
    unit = next((cell.unit[0] for cell in cells if cell.arms), "tokens/s")
    columns = [Column(plan.axis, key=True), *(Column(f"{label} {unit}", digits="thousands") for label in plan.labels)]
    for label in others:
        columns += [Column(f"Δ {label}" if len(others) > 1 else "difference"), Column("ms/step", unit="ms")]
    columns.append(Column("optimizer % of the step", unit="%", digits="three"))
    rows: list[list[Cell]] = []
    for cell in cells:
        base, ended = cell.baseline, cell.record.ended
        why = "; ".join(f"{label}: {reason}" for label, reason in ended.items())
        row: list[Cell] = [Text(cell.record.plan.label.partition(" ")[2], note=why)]
        for label in plan.labels:
            arm = cell.arms.get(label)
            row.append(Missing(ended.get(label, "")) if arm is None else _rate(cell.unit[1] / arm.seconds))
        for label in others:
            arm = cell.arms.get(label)
            if arm is None or arm.delta is None or base is None:
                row += [Missing(ended.get(label, "")), Missing()]
                continue
            row += [
                Text(percent(arm.delta.value, arm.delta)),
                Text(f"{MS * (arm.seconds - base.seconds):+.2g}"),
            ]
        rows.append([*row, number(None if base is None else 100 * base.share)])
    return Table(f"Throughput by {plan.axis}; differences against {plan.baseline}, 98 % intervals", columns, rows)


def _rate(rate: float) -> Cell:
    return Number(rate) if rate >= 100 else Number(rate, digits="three")


def sweep_memory_table(cells: Sequence[CellEstimate]) -> Table:
    """Peak bytes in tensors from step 2 on, and bytes of states."""
    plan = cells[0].record.plan
    columns = [Column(plan.axis, key=True)]
    for label in plan.labels:
        columns += [
            Column(f"{label} peak", unit="MB", digits="three"),
            Column(f"{label} states", unit="MB", digits="three"),
        ]
    columns.append(Column("resident peak", unit="MB", digits="whole"))
    rows: list[list[Cell]] = []
    for cell in cells:
        row: list[Cell] = [Text(cell.record.plan.label.partition(" ")[2])]
        for label in plan.labels:
            facts = cell.record.arms[label].facts if label in cell.record.arms else {}
            row += [_mb(facts.get("peak_bytes")), _mb(facts.get("state_bytes"))]
        resident = [arm.facts["resident_peak"] for arm in cell.record.arms.values() if arm.facts.get("resident_peak")]
        rows.append([*row, _mb(max(resident) if resident else None)])
    return Table("Memory in MB: peaks in tensors from step 2 on, states, the largest resident peak", columns, rows)


def _mb(size: float | None) -> Cell:
    return Missing() if size is None else Number(size / MB)


def sweep_loss_table(cells: Sequence[CellEstimate], subject: Subject) -> Table:
    """Where the curves of both end, with the same seeds."""
    plan = cells[0].record.plan
    others = [label for label in plan.labels if label != plan.baseline]
    columns = [Column(plan.axis, key=True), Column(plan.baseline, digits="four")]
    columns += [Column(f"{label} − {plan.baseline}") for label in others]
    rows: list[list[Cell]] = []
    for cell in cells:
        base = cell.baseline
        values = base.values if base is not None else ()
        row: list[Cell] = [Text(cell.record.plan.label.partition(" ")[2])]
        row.append(number(math.fsum(values) / len(values) if values else None))
        for label in others:
            arm = cell.arms.get(label)
            found = None if arm is None else arm.loss_delta
            row.append(Missing() if found is None else Text(_signed(found.value, found.low, found.high)))
        rows.append(row)
    return Table(f"{subject.metric} at the end, after as many steps with the same seeds", columns, rows, detail=True)


def _signed(value: float, low: float, high: float) -> str:
    return f"{value:+.4f} ({low:+.4f} to {high:+.4f})" if math.isfinite(low) else f"{value:+.4f}"


def sweep_verdicts(cells: Sequence[CellEstimate]) -> list[str]:
    """One sentence for each arm beside the baseline."""
    plan = cells[0].record.plan
    return [_verdict(cells, label) for label in plan.labels if label != plan.baseline]


def _verdict(cells: Sequence[CellEstimate], label: str) -> str:
    plan = cells[0].record.plan
    found = [(cell, arm.delta) for cell in cells if (arm := cell.arms.get(label)) is not None and arm.delta is not None]
    if not found:
        return f"{label} has no steps beside {plan.baseline} at any {plan.axis}."
    faster = sum(delta.low > 0 for _, delta in found)
    slower = sum(delta.high < 0 for _, delta in found)
    close = sum(delta.low >= -CLOSE and delta.high <= CLOSE for _, delta in found)
    worst = min(found, key=lambda pair: pair[1].low)
    total = len(found)
    return (
        f"{label} is faster than {plan.baseline} at {faster} of {total} sizes, slower at {slower}, and as fast within "
        f"±1 % at {close}; the lowest end of its intervals is {100 * worst[1].low:+.1f} % of throughput "
        f"(at {worst[0].record.plan.label})."
    )
