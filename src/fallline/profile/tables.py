"""The tables of one cell: absolute numbers, differences to the baseline, and the resources of a step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Mark, Missing, Number, Text, number
from fallline.measure.student import MeanInterval
from fallline.profile.estimate import ArmEstimate, CellEstimate
from fallline.profile.quantities import MB, percent
from fallline.training.phases import BACKWARD, CURVATURE, DATA, FORWARD, STEP, TRAINING

MS = 1e3
ALL_PHASES = (DATA, FORWARD, BACKWARD, STEP, CURVATURE, TRAINING)


def main_table(cell: CellEstimate, title: str = "") -> Table:
    """The absolute table; arms that ended early are rows with their reason."""
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column(cell.unit[0], digits="thousands"),
        Column(f"Δ vs {cell.record.plan.baseline}", name="delta"),
        Column("ms/step", unit="ms", digits="three"),
        Column("fwd", unit="ms", digits="three"),
        Column("bwd", unit="ms", digits="three"),
        Column("step", unit="ms", digits="three"),
        Column("data", unit="ms", digits="three"),
        Column("peak MB", unit="MB", digits="three"),
        Column("states MB", unit="MB", digits="three"),
        Column("loss", digits="four"),
    ]
    best = _extremes(cell)
    return Table(title, columns, [_main_row(cell, label, best) for label in cell.record.arms])


def _main_row(cell: CellEstimate, label: str, best: Mapping[str, str]) -> list[Cell]:
    arm, facts = cell.arms.get(label), cell.record.arms[label]
    why = facts.status or ""
    memory = [_megabytes(facts.peak), _megabytes(facts.facts.get("state_bytes"))]
    if best.get("peak") == label and isinstance(memory[0], Number):
        memory[0] = dataclasses.replace(memory[0], mark=Mark.FASTEST)
    name = Text(label, note=why)
    if arm is None:
        return [name, *[Missing(why) for _ in range(7)], *memory, Missing()]
    mark = Mark.FASTEST if best.get("rate") == label else None
    return [
        name,
        _digits(Number(cell.unit[1] / arm.seconds, mark=mark)),
        Text(percent(arm.delta.value, arm.delta)) if arm.delta is not None else Missing("the baseline"),
        Number(MS * arm.seconds),
        *(_phase(arm, phase) for phase in (FORWARD, BACKWARD, STEP, DATA)),
        *memory,
        number(_mean(arm.values), reason="no evaluation yet"),
    ]


def _digits(found: Number) -> Number:
    return found if found.value >= 100 else dataclasses.replace(found, digits="three")


def _phase(arm: ArmEstimate, phase: str) -> Cell:
    seconds = arm.own if phase == STEP else arm.phases.get(phase, 0.0)
    return Number(MS * seconds) if seconds else Missing("its own function trains")


def _megabytes(size: float | None) -> Cell:
    return Missing() if size is None else Number(size / MB)


def _extremes(cell: CellEstimate) -> dict[str, str]:
    """The best of a column, marked there."""
    found = {}
    if cell.arms:
        found["rate"] = min(cell.arms, key=lambda label: cell.arms[label].seconds)
    peaks = {label: facts.peak for label, facts in cell.record.arms.items()}
    known = {label: peak for label, peak in peaks.items() if peak is not None}
    if known:
        found["peak"] = min(known, key=lambda label: known[label])
    return found


def difference_table(cell: CellEstimate) -> Table:
    """Differences to the baseline, each with the interval that noise leaves."""
    base = cell.record.plan.baseline
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column("Δ throughput, from step phases", name="delta throughput"),
        Column("ms per step", unit="ms", name="delta ms"),
        Column("Δ whole steps", name="delta whole"),
        Column("forward and backward over the baseline's", name="alike"),
        Column("Δ peak MB", unit="MB", name="delta peak", digits="three"),
        Column("Δ states MB", unit="MB", name="delta states", digits="three"),
        Column("Δ loss", name="delta loss"),
    ]
    rows: list[list[Cell]] = []
    baseline = cell.baseline
    for label, arm in cell.arms.items():
        if arm.delta is None or baseline is None:
            continue
        facts = [cell.record.arms[one].facts for one in (label, base)]
        rows.append(
            [
                Text(label),
                Text(percent(arm.delta.value, arm.delta)),
                Text(f"{MS * (arm.seconds - baseline.seconds):+.3g}"),
                _percentage(arm.whole_delta),
                _ratio(arm.alike),
                _difference(facts, "peak_bytes"),
                _difference(facts, "state_bytes"),
                _loss_difference(arm.loss_delta),
            ]
        )
    level = "98 % for the table as a whole" if len(rows) > 1 else "98 %"
    return Table(f"Against {base}; intervals over blocks and repeats, {level}", columns, rows, detail=True)


def _percentage(found: MeanInterval | None) -> Cell:
    return Missing() if found is None else Text(percent(found.value, found))


def _ratio(found: MeanInterval | None) -> Cell:
    if found is None:
        return Missing()
    return Text(f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})")


def _difference(facts: Sequence[Mapping[str, Any]], name: str) -> Cell:
    own, base = (one.get(name) for one in facts)
    return Missing() if own is None or base is None else Number((own - base) / MB)


def _loss_difference(found: MeanInterval | None) -> Cell:
    if found is None:
        return Missing()
    if not math.isfinite(found.low):
        return Text(f"{found.value:+.3g}")
    return Text(f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})")


def resources_table(cell: CellEstimate) -> Table:
    """The resources that a step uses beside its time; a GPU's where there is one."""
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column("collator s", unit="s", digits="three"),
        Column("warm-up s", unit="s", digits="three"),
        Column("CPU use %", unit="%", digits="whole"),
        Column("CPU ms/step", unit="ms", digits="three"),
        Column("resident peak MB", unit="MB", digits="whole"),
        Column("useful tokens/s", digits="thousands"),
        Column("share of the step %", unit="%", digits="three"),
        Column("faults per step", digits="three"),
        Column("skipped steps", digits="whole"),
        Column("total s", unit="s", digits="three"),
        Column("runs by", align="left"),
    ]
    rows = [_resources_row(cell, label, arm) for label, arm in cell.arms.items()]
    if any("gpu_use" in facts.facts for facts in cell.record.arms.values()):
        columns[-1:-1] = [
            Column("GPU use %", unit="%", digits="whole"),
            Column("GPU MB", unit="MB", digits="thousands"),
        ]
        for label, row in zip(cell.arms, rows, strict=True):
            row[-1:-1] = _gpu_cells(cell.record.arms[label].facts)
    return Table("Resources", columns, rows, detail=True)


def _resources_row(cell: CellEstimate, label: str, arm: ArmEstimate) -> list[Cell]:
    facts, timed = cell.record.arms[label].facts, cell.record.timed(label)
    wall = math.fsum(sum(s.seconds.get(p, 0.0) for p in ALL_PHASES) for s in timed)
    cpu = math.fsum(sum(s.seconds.get(f"cpu.{p}", 0.0) for p in ALL_PHASES) for s in timed)
    useful = None if cell.tokens is None else cell.tokens / arm.seconds
    skipped = sum(value for name, value in facts.items() if name.startswith("skipped."))
    return [
        Text(label),
        Number(math.fsum(s.seconds.get(DATA, 0.0) for s in timed)),
        number(facts.get("warm_up_seconds")),
        Number(100 * cpu / wall / cell.record.plan.threads if wall else 0.0),
        Number(MS * arm.cpu),
        _megabytes(facts.get("resident_peak")),
        number(useful),
        number(100 * arm.share),
        Number(arm.faults[0] + arm.faults[1]),
        Number(skipped),
        Number(arm.seconds * arm.steps),
        Text(", ".join(facts.get("lowerings", ())) or cell.record.plan.arm(label).implementation),
    ]


def _gpu_cells(facts: Mapping[str, Any]) -> list[Cell]:
    """The use of the GPU and the bytes held on it, or why they could not be read."""
    missing, held = facts.get("gpu_missing") or "", facts.get("gpu_bytes")
    return [number(facts.get("gpu_use"), reason=missing), Missing(missing) if held is None else Number(held / MB)]


def relative_table(cell: CellEstimate) -> Table:
    """The published table of differences in percent, column for column, from the resources above it."""
    base = cell.record.plan.baseline
    resources = resources_table(cell)
    names = ("collator s", "warm-up s", "CPU use %", "resident peak MB", "total s")
    places = {column.title: at for at, column in enumerate(resources.columns)}
    rows_of = {row[0].value: row for row in resources.rows if isinstance(row[0], Text)}
    columns = [Column("", name="optimizer", align="left", key=True), *(Column(f"Δ {name[:-2]}") for name in names[:3])]
    columns += [Column("Δ resident peak"), Column("Δ total"), Column("Δ peak in tensors"), Column("Δ tokens/s")]
    rows: list[list[Cell]] = []
    for label, arm in cell.arms.items():
        if label == base or base not in rows_of or arm.delta is None:
            continue
        both = [(rows_of[label][places[name]], rows_of[base][places[name]]) for name in names]
        peaks = [_megabytes(cell.record.arms[one].peak) for one in (label, base)]
        relative = [_relative(own, other) for own, other in [*both, (peaks[0], peaks[1])]]
        rows.append([Text(label), *relative, Text(percent(arm.delta.value))])
    return Table(f"Against {base}, in percent, as the published table has it", columns, rows, detail=True)


def _relative(own: Cell, base: Cell) -> Cell:
    if not isinstance(own, Number) or not isinstance(base, Number) or not base.value:
        return Missing()
    return Text(percent(own.value / base.value - 1.0))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
