"""A profile as a document: tables, figures, sentences and verdicts, all from its results file alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fallline.document.blocks import Block, Document, Note, Paragraph, Provenance, Verdict
from fallline.document.figures import Chart
from fallline.document.numbers import counted
from fallline.measure import machine
from fallline.measure.store import StoreError
from fallline.profile.as_data import as_data, data_id
from fallline.profile.estimate import CellEstimate, estimate
from fallline.profile.figures import figures
from fallline.profile.observations import allowed, observations
from fallline.profile.published import (
    ADAMW_8BIT,
    ROUND1,
    adamw_8bit_claims,
    adamw_8bit_table,
    round1_claims,
    round1_table,
)
from fallline.profile.reservations import reservations
from fallline.profile.results import CellRecord, Results
from fallline.profile.subject import Subject, undescribed
from fallline.profile.sweep import cliff_sentence, trend_sentence
from fallline.profile.sweep_tables import sweep_head, sweep_loss_table, sweep_memory_table, sweep_table, sweep_verdicts
from fallline.profile.tables import difference_table, main_table, relative_table, resources_table
from fallline.profile.verdicts import verdicts
from fallline.step.published.claims import Answer


def document(results: Results) -> Document:
    """The document of a profile: of its one cell, or of a sweep."""
    plans = results.plans()
    if not plans:
        raise StoreError(f"{results.path}: holds no profile yet; leave --show out")
    cells = [estimate(results.load(plan)) for plan in plans]
    subject = next((found for cell in cells if (found := cell.record.subject) is not None), None)
    subject = subject or undescribed(plans[0])
    blocks = _of_sweep(cells, subject) if len(cells) > 1 else _of_one(cells[0], subject)
    claims = _claims(cells)
    blocks += [Paragraph(answer.text(), detail=True) for answer in claims]
    machines = results.machines()
    where = machine.circumstances(machines) if machines else ""
    blocks.append(Paragraph(where, tone="dim", detail=True))
    told = verdicts(cells[0], subject) if len(cells) == 1 else sweep_verdicts(cells)
    blocks += [Verdict(line) for line in told[:-1]]
    name = data_id([cell.record for cell in cells])
    blocks.append(Verdict(told[-1] if told else "Nothing was compared.", data=name, file=str(results.path)))
    result = {
        "preset": plans[0].preset,
        "workload": subject.definition(),
        "data": name,
        "file": str(results.path),
        "machines": machines,
        "cells": [as_data(cell, subject) for cell in cells],
        "claims": [dataclasses.asdict(answer) for answer in claims],
        "notes": reservations(cells),
        "verdicts": told,
    }
    return Document(blocks, Provenance(name, str(results.path), where), result=result)


def _of_one(cell: CellEstimate, subject: Subject) -> list[Block]:
    published: list[Block] = [round1_table()] if cell.record.plan.preset == ROUND1 else []
    return [
        Paragraph(head(cell.record, subject)),
        *published,
        main_table(cell),
        difference_table(cell),
        resources_table(cell),
        *([relative_table(cell)] if published else []),
        *figures(cell),
        *(Note(note) for note in reservations([cell])),
        *(Paragraph(line, detail=True) for line in observations(cell, subject)),
    ]


def _of_sweep(cells: Sequence[CellEstimate], subject: Subject) -> list[Block]:
    plan = cells[0].record.plan
    published: list[Block] = [adamw_8bit_table()] if plan.preset == ADAMW_8BIT else []
    others = [label for label in plan.labels if label != plan.baseline]
    lines = [trend_sentence(cells, label, plan.axis) for label in others]
    lines += cliff_sentence(cells, plan.axis)
    lines += [line for cell in cells for line in allowed(cell)]
    return [
        Paragraph(sweep_head(cells, subject)),
        *published,
        sweep_table(cells),
        sweep_memory_table(cells),
        sweep_loss_table(cells, subject),
        *(figure for cell in cells for figure in figures(cell) if isinstance(figure, Chart)),
        *(Note(note) for note in reservations(cells)),
        *(Paragraph(line, detail=True) for line in lines),
    ]


def _claims(cells: Sequence[CellEstimate]) -> list[Answer]:
    preset = cells[0].record.plan.preset
    if preset == ROUND1:
        return round1_claims(cells[0])
    return adamw_8bit_claims(cells) if preset == ADAMW_8BIT else []


def head(record: CellRecord, subject: Subject) -> str:
    """The conditions in a line or two."""
    plan, counts = record.plan, record.counts
    steps = "no steps yet" if counts is None else f"{plan.repeats} × {counts.steps} timed steps of each, interleaved"
    compiled = ", compiled" if plan.compiled else ""
    return (
        f"{plan.workload}: {subject.described(record.parameters)}; {plan.precision}{compiled} on {plan.device}, "
        f"{counted(plan.threads, 'thread')}; data: {subject.data}; {steps}"
    )
