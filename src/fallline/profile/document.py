"""A profile as a document: the absolute table, the differences, the phases, sentences, figures."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Block, Document, Note, Paragraph, Provenance, Table, Verdict
from fallline.document.cells import Cell, Column, Mark, Missing, Number, Text, number
from fallline.document.figures import Chart
from fallline.measure import machine
from fallline.measure.store import StoreError
from fallline.measure.student import MeanInterval
from fallline.profile.estimate import ArmEstimate, CellEstimate, estimate
from fallline.profile.figures import figures
from fallline.profile.observations import MB, allowed, failed, observations, percent, reservations, verdicts
from fallline.profile.published import (
    ADAMW_8BIT,
    ROUND1,
    adamw_8bit_claims,
    adamw_8bit_table,
    round1_claims,
    round1_table,
)
from fallline.profile.results import CellRecord, Results
from fallline.profile.sweep import cliff_sentence, trend_sentence
from fallline.profile.sweep_tables import sweep_head, sweep_loss_table, sweep_memory_table, sweep_table, sweep_verdicts
from fallline.step.published.claims import Answer
from fallline.training.phases import BACKWARD, CURVATURE, DATA, FORWARD, STEP, TRAINING
from fallline.workloads import Workload

MS = 1e3


def document(results: Results) -> Document:
    """The document of a profile: of its one cell, or of a sweep."""
    plans = results.plans()
    if not plans:
        raise StoreError(f"{results.path}: holds no profile yet; leave --show out")
    cells = [estimate(results.load(plan)) for plan in plans]
    workload = plans[0].loaded()
    blocks = _of_sweep(cells, workload) if len(cells) > 1 else _of_one(cells[0], workload)
    claims = _claims(cells)
    blocks += [Paragraph(answer.text(), detail=True) for answer in claims]
    where = circumstances(results.machines())
    blocks.append(Paragraph(where, tone="dim", detail=True))
    told = _verdicts(cells, workload)
    blocks += [Verdict(line) for line in told[:-1]]
    name = data_id([cell.record for cell in cells])
    blocks.append(Verdict(told[-1] if told else "Nothing was compared.", data=name, file=str(results.path)))
    result = {
        "preset": plans[0].preset,
        "data": name,
        "file": str(results.path),
        "machines": results.machines(),
        "cells": [as_data(cell, workload) for cell in cells],
        "claims": [dataclasses.asdict(answer) for answer in claims],
        "notes": reservations(cells),
        "verdicts": told,
    }
    return Document(blocks, Provenance(name, str(results.path), where), result=result)


def _of_one(cell: CellEstimate, workload: Workload) -> list[Block]:
    published: list[Block] = [round1_table()] if cell.record.plan.preset == ROUND1 else []
    return [
        Paragraph(head(cell.record, workload)),
        *published,
        main_table(cell),
        difference_table(cell),
        resources_table(cell),
        *([relative_table(cell)] if published else []),
        *figures(cell),
        *(Note(note) for note in reservations([cell])),
        *(Paragraph(line, detail=True) for line in observations(cell, workload)),
    ]


def _of_sweep(cells: Sequence[CellEstimate], workload: Workload) -> list[Block]:
    plan = cells[0].record.plan
    published: list[Block] = [adamw_8bit_table()] if plan.preset == ADAMW_8BIT else []
    others = [label for label in plan.labels if label != plan.baseline]
    lines = [trend_sentence(cells, label, plan.axis) for label in others]
    lines += cliff_sentence(cells, plan.axis)
    lines += [line for cell in cells for line in allowed(cell)]
    return [
        Paragraph(sweep_head(cells, workload)),
        *published,
        sweep_table(cells),
        sweep_memory_table(cells),
        sweep_loss_table(cells, workload),
        *(figure for cell in cells for figure in figures(cell) if isinstance(figure, Chart)),
        *(Note(note) for note in reservations(cells)),
        *(Paragraph(line, detail=True) for line in lines),
    ]


def _claims(cells: Sequence[CellEstimate]) -> list[Answer]:
    preset = cells[0].record.plan.preset
    if preset == ROUND1:
        return round1_claims(cells[0])
    return adamw_8bit_claims(cells) if preset == ADAMW_8BIT else []


def _verdicts(cells: Sequence[CellEstimate], workload: Workload) -> list[str]:
    if len(cells) == 1:
        return verdicts(cells[0], workload)
    return sweep_verdicts(cells)


def head(record: CellRecord, workload: Workload) -> str:
    """The conditions in a line or two."""
    plan, counts = record.plan, record.counts
    steps = "no steps yet" if counts is None else f"{plan.repeats} × {counts.steps} timed steps of each, interleaved"
    compiled = ", compiled" if plan.compiled else ""
    return (
        f"{plan.workload}: {workload.about.model}; {plan.precision}{compiled} on {plan.device}, "
        f"{plan.threads} thread{'s' if plan.threads > 1 else ''}; data: {workload.data_name}; {steps}"
    )


# ------------------------------------------------------------------ tables


def main_table(cell: CellEstimate, title: str = "") -> Table:
    """The absolute table; arms that ended early are rows with their reason."""
    unit, per_step = cell.unit
    base = cell.record.plan.baseline
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column(unit, digits="thousands"),
        Column(f"Δ vs {base}", name="delta"),
        Column("ms/step", unit="ms", digits="three"),
        Column("fwd", unit="ms", digits="three"),
        Column("bwd", unit="ms", digits="three"),
        Column("step", unit="ms", digits="three"),
        Column("data", unit="ms", digits="three"),
        Column("peak MB", unit="MB", digits="three"),
        Column("states MB", unit="MB", digits="three"),
        Column("loss", digits="four"),
    ]
    ended = failed(cell)
    rows: list[list[Cell]] = []
    best = _extremes(cell)
    for label, facts in cell.record.arms.items():
        arm = cell.arms.get(label)
        name = Text(label, note=ended[label]) if label in ended else Text(label)
        memory = [_megabytes(facts.facts.get(fact)) for fact in ("peak_bytes", "state_bytes")]
        if best.get("peak") == label and isinstance(memory[0], Number):
            memory[0] = dataclasses.replace(memory[0], mark=Mark.FASTEST)
        if arm is None:
            rows.append([name, *[Missing(ended.get(label, "")) for _ in range(7)], *memory, Missing()])
            continue
        mark = Mark.FASTEST if best.get("rate") == label else None
        delta: Cell = Text(percent(arm.delta.value, arm.delta)) if arm.delta is not None else Missing("the baseline")
        rows.append(
            [
                name,
                _digits(Number(per_step / arm.seconds, mark=mark)),
                delta,
                Number(MS * arm.seconds),
                *(_phase(arm, phase) for phase in (FORWARD, BACKWARD, STEP, DATA)),
                *memory,
                number(_mean(arm.values), reason="no evaluation yet"),
            ]
        )
    return Table(title, columns, rows)


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
    peaks = {label: facts.facts.get("peak_bytes") for label, facts in cell.record.arms.items()}
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
    """The resources that a step uses beside its time."""
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
    rows: list[list[Cell]] = []
    for label, arm in cell.arms.items():
        facts = cell.record.arms[label].facts
        timed = cell.record.timed(label)
        wall = math.fsum(sum(s.seconds.get(p, 0.0) for p in _ALL) for s in timed)
        cpu = math.fsum(sum(s.seconds.get(f"cpu.{p}", 0.0) for p in _ALL) for s in timed)
        useful = None if cell.tokens is None else cell.tokens / arm.seconds
        skipped = sum(value for name, value in facts.items() if name.startswith("skipped."))
        rows.append(
            [
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
        )
    return Table("Resources", columns, rows, detail=True)


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
        peaks = [_megabytes(cell.record.arms[one].facts.get("peak_bytes")) for one in (label, base)]
        relative = [_relative(own, other) for own, other in [*both, (peaks[0], peaks[1])]]
        rows.append([Text(label), *relative, Text(percent(arm.delta.value))])
    return Table(f"Against {base}, in percent, as the published table has it", columns, rows, detail=True)


def _relative(own: Cell, base: Cell) -> Cell:
    if not isinstance(own, Number) or not isinstance(base, Number) or not base.value:
        return Missing()
    return Text(percent(own.value / base.value - 1.0))


_ALL = (DATA, FORWARD, BACKWARD, STEP, CURVATURE, TRAINING)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# ------------------------------------------------------------------ for programs


def as_data(cell: CellEstimate, workload: Workload) -> dict[str, Any]:
    """A cell with stable keys and raw numbers."""
    plan = cell.record.plan
    return {
        "label": plan.label,
        "plan": plan.definition(),
        "key": plan.key,
        "counts": None if cell.record.counts is None else dataclasses.asdict(cell.record.counts),
        "clock": cell.clock,
        "off_processor": cell.off_processor,
        "phase_gap": cell.phase_gap,
        "unit": cell.unit[0],
        "per_step": {"tokens": cell.tokens, "positions": cell.positions, "samples": cell.samples},
        "arms": {label: _arm_data(cell, label) for label in cell.record.arms},
        "observations": observations(cell, workload),
    }


def _arm_data(cell: CellEstimate, label: str) -> dict[str, Any]:
    arm, facts = cell.arms.get(label), cell.record.arms[label]
    data: dict[str, Any] = {"status": facts.status, "facts": facts.facts}
    if arm is None:
        return data
    rate = cell.unit[1] / arm.seconds
    return _finite(
        data
        | {
            "rate": rate,
            "seconds_per_step": arm.seconds,
            "whole_seconds": arm.whole,
            "cpu_seconds": arm.cpu,
            "phases": dict(arm.phases),
            "share": arm.share,
            "steps": arm.steps,
            "delta": _interval(arm.delta),
            "whole_delta": _interval(arm.whole_delta),
            "alike": _interval(arm.alike),
            "values": list(arm.values),
            "loss_delta": _interval(arm.loss_delta),
            "faults": list(arm.faults),
            "not_finite": arm.diverged,
        }
    )


def _interval(found: MeanInterval | None) -> dict[str, Any] | None:
    return None if found is None else dataclasses.asdict(found)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def data_id(records: Sequence[CellRecord]) -> str:
    """A name for the samples; other samples have another one."""
    content = [
        [record.plan.key, [[s.repeat, s.arm, s.step, s.loss, dict(s.seconds)] for s in record.steps]]
        for record in records
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def circumstances(machines: Sequence[Mapping[str, Any]]) -> str:
    return machine.circumstances(machines) if machines else ""
