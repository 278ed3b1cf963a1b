"""The tables of ``adan-gpt2`` in the published layout: 25 rows; rows that were not measured are modelled."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from fallline.document.blocks import Table
from fallline.document.cells import BEFORE, Cell, Column, Mark, Missing, Number, Text, text_of
from fallline.document.numbers import ABSENT, BELOW, supported_decimals
from fallline.measure import gates
from fallline.step.analyse import CellResult, TableResult
from fallline.step.gpt2 import Gpt2
from fallline.step.published.presets import ADAM, ADAM_FUSED, CONFIGURATIONS, FUSED
from fallline.step.tables import TIME, time_cell

MIB = 2**20
MODELLED = BEFORE[Mark.MODELLED]
"""Stands before a number that was not measured."""
STEPS = 200
PLACE = [Column(name, key=True, digits="whole") for name in ("heads", "layers", "width", "M parameters")]
MEMORY = Column("MiB", unit="MiB")


def _place(config: Gpt2) -> list[Cell]:
    # The published column truncates millions: 81.9 is 81 there.
    return [Number(value) for value in (config.heads, config.layers, config.width, config.parameters // 10**6)]


def time_table(table: TableResult) -> tuple[Table, list[str]]:
    """Milliseconds of every arm, percentages computed from the printed cells, and findings about these."""
    measured = {_shape(row): row for row in table.rows}
    rows, printed = [], []
    for config in CONFIGURATIONS:
        row = measured.get((config.layers, config.width))
        cells = {name: _cell(table, row, config, name) for name in table.arms}
        shown = {name: text_of(cell, TIME) for name, cell in cells.items()}
        shares = [percent(shown[FUSED], shown[base]) for base in (ADAM, ADAM_FUSED)]
        for base, share in zip((ADAM, ADAM_FUSED), shares, strict=True):
            if share != ABSENT:
                printed.append((f"{config.name}, {base}", _bare(shown[FUSED]), _bare(shown[base]), share))
        totals = [_total(shown[name], row, name) for name in (ADAM, FUSED)]
        rows.append([*_place(config), *cells.values(), *map(_as_printed, shares), *totals])
    columns = [*PLACE, *(Column(name, unit="ms", digits="supported") for name in table.arms)]
    columns += [Column(f"{FUSED} / {base} %", unit="%") for base in (ADAM, ADAM_FUSED)]
    columns += [Column(f"{STEPS} steps {name}, s", unit="s") for name in (ADAM, FUSED)]
    return Table(f"{table.title}: ms per step", columns, rows, detail=True), gates.wrong_percentages(printed)


def _shape(row: CellResult) -> tuple[int, int]:
    layers, _, width = row.cell.label.partition(" layers × ")
    return int(layers), int(width)


def _cell(table: TableResult, row: CellResult | None, config: Gpt2, name: str) -> Cell:
    """The measured time, or one computed from the time per parameter of the largest measured shape."""
    if row is not None and row.arms[name].seconds is not None:
        return time_cell(row.arms[name])
    able = [one for one in table.rows if one.arms[name].seconds is not None and not one.arms[name].wrong]
    if not able:
        return Missing()
    largest = max(able, key=lambda one: one.cell.elements)
    per_parameter = statistics.median(largest.arms[name].samples) / largest.cell.elements
    return Number(1e3 * per_parameter * config.parameters, mark=Mark.MODELLED, digits="whole")


def _bare(printed: str) -> str:
    return printed.removeprefix(MODELLED).split()[0]


def _as_printed(text: str, mark: Mark | None = None) -> Cell:
    """A number that was already rounded as text, with its digits."""
    return Missing() if text == ABSENT else Number(float(text), mark=mark, digits=len(text.partition(".")[2]))


def percent(numerator: str, denominator: str) -> str:
    """The percentage of two printed cells, with the digits that they support."""
    if ABSENT in (numerator, denominator) or MODELLED in numerator + denominator:
        return ABSENT
    low, high = gates.percent_range(_bare(numerator), _bare(denominator))
    value = 100 * float(_bare(numerator)) / float(_bare(denominator))
    return f"{value:.{min(1, supported_decimals(value, low, high))}f}"


def _total(printed: str, row: CellResult | None, name: str) -> Cell:
    """The sum if all these steps were timed; otherwise the printed time multiplied by their number."""
    samples = row.arms[name].samples if row is not None else ()
    if len(samples) >= STEPS:
        return Number(sum(samples[:STEPS]), digits="four")
    if printed == ABSENT:
        return Missing()
    mark = Mark.MODELLED if printed.startswith(MODELLED) else None
    return Number(STEPS * float(_bare(printed)) / 1e3, mark=mark, digits="three")


def memory_table(memory: Mapping[str, Mapping[str, Any]]) -> Table:
    """Both figures for both optimizers, and the differences computed from the printed cells."""
    rows = []
    for config in CONFIGURATIONS:
        cells: list[Cell] = []
        for figure in ("seed_like", "true"):
            pair = [_mib(memory, config, label, figure) for label in ("Adam", "FusedAdan")]
            cells += [*pair, _delta(*(text_of(cell, MEMORY) for cell in pair))]
        rows.append([*_place(config), *cells])
    titles = ("seed-like Adam MiB", "FusedAdan MiB", "Δ %", "true Adam MiB", "FusedAdan MiB", "Δ %")
    units = ("MiB", "MiB", "%") * 2
    columns = [*PLACE, *(Column(title, unit=unit) for title, unit in zip(titles, units, strict=True))]
    return Table("GPT-2, peak memory of tensors, batch 1, sequence 2048", columns, rows, detail=True)


def _mib(memory: Mapping[str, Mapping[str, Any]], config: Gpt2, label: str, figure: str) -> Cell:
    for kind, mark in (("measured", None), ("modelled", Mark.MODELLED)):
        found = memory.get(f"{kind} {config.name} {label}")
        if found is not None and "failed" not in found:
            return _in_mib(found[figure], mark)
    return Missing()


def _in_mib(count: int, mark: Mark | None) -> Cell:
    mib = count / MIB
    return Number(mib, mark=mark, digits="whole" if mib >= 100 or mib == 0 else "general")


def _delta(adam: str, adan: str) -> Cell:
    if ABSENT in (adam, adan) or BELOW in adam + adan:
        return Missing()
    before = float(_bare(adam))
    return Number(100 * (float(_bare(adan)) / before - 1) if before else math.inf, digits=2)


def starts_table(table: TableResult, memory: Mapping[str, Mapping[str, Any]]) -> Table:
    """The launches of a step, their cost, and the memory beside states: single-tensor against multi-tensor."""
    columns = [
        Column("", align="left", key=True),
        Column("kernel starts", digits="whole"),
        TIME,
        Column("MiB beside states", unit="MiB"),
    ]
    if not table.rows:
        return Table("kernel starts", columns, [], detail=True)
    config = CONFIGURATIONS[0]  # the configuration whose memory is known; an unfinished file may lack its times
    row = next((row for row in table.rows if _shape(row) == (config.layers, config.width)), table.rows[0])
    known = memory if _shape(row) == (config.layers, config.width) else {}
    rows: list[list[Cell]] = []
    for name in table.arms:
        held = known.get(f"step {config.name} {name}", {}).get("step_extra")
        launches = row.arms[name].launches
        rows.append(
            [
                Text(name),
                Missing() if launches is None else Number(launches),
                time_cell(row.arms[name]),
                Missing() if held is None else _in_mib(held, Mark.MODELLED),
            ]
        )
    return Table(f"one step over {row.cell.tensors} tensors ({row.cell.label})", columns, rows, detail=True)


def notes(memory: Mapping[str, Mapping[str, Any]], table: TableResult | None = None) -> list[str]:
    found = [
        f"{MODELLED} is modelled: times from the time per parameter of the largest shape measured, memory by counting "
        "every allocation of the same program on tensors without memory.",
        f"{ADAM} is torch's default, a loop over tensors; {ADAM_FUSED} is as fused as {FUSED}: comparing {FUSED} with "
        f"{ADAM} mixes the algorithm with its implementation.",
    ]
    if table is not None and any(
        arm.samples and len(arm.samples) < STEPS for row in table.rows for arm in row.arms.values()
    ):
        found.append(f"totals are {STEPS} × the time of a step; --steps {STEPS} times as many steps, and adds them up.")
    heads = {
        config.heads: float(config.parameters) for config in CONFIGURATIONS if (config.layers, config.width) == (6, 768)
    }
    same = gates.changes_nothing("the number of heads", heads)
    if same:
        found.append(f"{same}; rows with equal layers and width share one measurement of time.")
    return found + _measured_and_modelled(memory)


def _measured_and_modelled(memory: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How well the model agrees with measurements, and which measurements failed."""
    found, off = [], []
    for config in CONFIGURATIONS:
        for label in ("Adam", "FusedAdan"):
            real, model = (memory.get(f"{kind} {config.name} {label}") for kind in ("measured", "modelled"))
            if real and "failed" in real:
                found.append(f"memory of {config.name} with {label} could not be measured: {real['failed']}")
            elif real and model:
                off.append((abs(real["true"] / model["true"] - 1), config, label, real, model))
    if off:
        worst, config, label, real, model = max(off, key=lambda one: one[0])
        held = f"; that process held {real['resident'] / MIB:.0f} MiB in all" if real.get("resident") else ""
        case = f"{config.name} with {label}: {real['true'] / MIB:.0f} MiB measured, {model['true'] / MIB:.0f} modelled"
        differ = f"the two differ by at most {100 * worst:.1f} % ({case}{held})"
        found.append(f"memory was measured in {len(off)} cases and modelled in all; {differ}.")
    return found
