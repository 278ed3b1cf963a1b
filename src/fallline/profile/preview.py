"""The arms that a profile would run: its arms with their settings, and the memory that each should need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Block, Document, Paragraph, Table
from fallline.document.cells import Cell, Column, Missing, Number, Text
from fallline.document.numbers import counted
from fallline.measure.machine import available_memory
from fallline.profile.plan import Plan
from fallline.profile.quantities import MB
from fallline.profile.room import room_of


def plan_document(plans: Sequence[Plan]) -> Document:
    """One table for each cell."""
    blocks: list[Block] = []
    result = []
    for plan in plans:
        workload = plan.loaded()
        room = room_of(plan, workload)
        peaks = {arm.label: room.peak(arm) for arm in plan.arms}
        where = f"{plan.precision} on {plan.device}, {counted(plan.threads, 'thread')}"
        data = f"data: {workload.data_name}; {counted(plan.repeats, 'repeat')}, against {plan.baseline}"
        blocks += [Paragraph(f"{plan.workload}: {workload.about.model}; {where}; {data}"), _table(plan, peaks)]
        result.append({**plan.definition(), "predicted_peaks": peaks})
    free = available_memory()
    if free is not None:
        blocks.append(Paragraph(f"{free / 1e9:.1f} GB of memory are available."))
    return Document(blocks, result=result)


def _table(plan: Plan, peaks: Mapping[str, int | None]) -> Table:
    columns = [
        Column("", name="optimizer", align="left", key=True),
        Column("predicted peak MB", unit="MB", digits="three"),
        Column("by", name="implementation", align="left"),
        Column("settings", align="left", prose=True),
    ]
    rows: list[list[Cell]] = []
    for arm in plan.arms:
        peak = peaks[arm.label]
        shown: Cell = Missing("the model of memory cannot say") if peak is None else Number(peak / MB)
        rows.append([Text(arm.label), shown, Text(arm.implementation), Text(_settings(arm.settings, arm.schedule))])
    return Table("", columns, rows)


def _settings(settings: Mapping[str, Any], schedule: str) -> str:
    told = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()]
    return ", ".join([*told, schedule])
