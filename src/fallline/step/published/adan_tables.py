"""The tables of ``adan-gpt2`` in the published layout: 25 rows, of which those that were not measured are modelled."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from fallline.measure import gates
from fallline.measure.stats import supported_decimals
from fallline.step.analyse import CellResult, TableResult
from fallline.step.gpt2 import Gpt2
from fallline.step.layout import Table
from fallline.step.published.presets import ADAM, ADAM_FUSED, CONFIGURATIONS, FUSED
from fallline.step.tables import milliseconds

MIB = 2**20
MODELLED = "~"
"""Stands before a number that was not measured."""
STEPS = 200
PLACE = ("heads", "layers", "width", "M parameters")


def _place(config: Gpt2) -> list[str]:
    # The published column cuts the millions off: 81.9 is 81 there.
    return [str(config.heads), str(config.layers), str(config.width), str(config.parameters // 10**6)]


def time_table(table: TableResult) -> tuple[Table, list[str]]:
    """Milliseconds of every arm, percentages computed from the printed cells, and what is wrong with these."""
    measured = {_shape(row): row for row in table.rows}
    rows, printed = [], []
    for config in CONFIGURATIONS:
        row = measured.get((config.layers, config.width))
        cells = [_cell(table, row, config, name) for name in table.arms]
        by_name = dict(zip(table.arms, cells, strict=True))
        shares = [percent(by_name[FUSED], by_name[base]) for base in (ADAM, ADAM_FUSED)]
        for base, share in zip((ADAM, ADAM_FUSED), shares, strict=True):
            if share != "–":
                printed.append((f"{config.name}, {base}", _bare(by_name[FUSED]), _bare(by_name[base]), share))
        totals = [_total(by_name[name], row, name) for name in (ADAM, FUSED)]
        rows.append([*_place(config), *cells, *shares, *totals])
    header = [*PLACE, *table.arms, f"{FUSED} / {ADAM} %", f"{FUSED} / {ADAM_FUSED} %"]
    header += [f"{STEPS} steps {name}, s" for name in (ADAM, FUSED)]
    return Table(f"{table.title}: ms per step", header, rows, 0, len(PLACE)), gates.wrong_percentages(printed)


def _shape(row: CellResult) -> tuple[int, int]:
    layers, _, width = row.cell.label.partition(" layers × ")
    return int(layers), int(width)


def _cell(table: TableResult, row: CellResult | None, config: Gpt2, name: str) -> str:
    if row is not None and row.arms[name].seconds is not None:
        return milliseconds(row.arms[name])
    able = [one for one in table.rows if one.arms[name].seconds is not None and not one.arms[name].wrong]
    if not able:
        return "–"
    largest = max(able, key=lambda one: one.cell.elements)
    per_parameter = statistics.median(largest.arms[name].samples) / largest.cell.elements
    return f"{MODELLED}{1e3 * per_parameter * config.parameters:.0f}"


def _bare(cell: str) -> str:
    return cell.removeprefix(MODELLED).split()[0]


def percent(numerator: str, denominator: str) -> str:
    """Of two printed cells, with the digits that they support."""
    if "–" in (numerator, denominator) or MODELLED in numerator + denominator:
        return "–"
    low, high = gates.percent_range(_bare(numerator), _bare(denominator))
    value = 100 * float(_bare(numerator)) / float(_bare(denominator))
    return f"{value:.{min(1, supported_decimals(value, low, high))}f}"


def _total(cell: str, row: CellResult | None, name: str) -> str:
    """The sum where so many steps were timed; otherwise as many times the printed one."""
    samples = row.arms[name].samples if row is not None else ()
    if len(samples) >= STEPS:
        return _in_seconds(sum(samples[:STEPS]), 4)
    if cell == "–":
        return cell
    mark = MODELLED if cell.startswith(MODELLED) else ""
    return mark + _in_seconds(STEPS * float(_bare(cell)) / 1e3, 3)


def _in_seconds(seconds: float, digits: int) -> str:
    return f"{seconds:.{digits}g}" if seconds < 10**digits else f"{seconds:.0f}"


def memory_table(memory: Mapping[str, Mapping[str, Any]]) -> Table:
    """Both figures for both optimizers, and the differences computed from the printed cells."""
    rows = []
    for config in CONFIGURATIONS:
        cells: list[str] = []
        for figure in ("seed_like", "true"):
            pair = [_mib(memory, config, label, figure) for label in ("Adam", "FusedAdan")]
            cells += [*pair, _delta(*pair)]
        rows.append([*_place(config), *cells])
    header = [*PLACE, "seed-like Adam MiB", "FusedAdan MiB", "Δ %", "true Adam MiB", "FusedAdan MiB", "Δ %"]
    return Table("GPT-2, peak memory of tensors, batch 1, sequence 2048", header, rows, 0, len(PLACE))


def _mib(memory: Mapping[str, Mapping[str, Any]], config: Gpt2, label: str, figure: str) -> str:
    for kind, mark in (("measured", ""), ("modelled", MODELLED)):
        found = memory.get(f"{kind} {config.name} {label}")
        if found is not None and "failed" not in found:
            return mark + _in_mib(found[figure])
    return "–"


def _in_mib(count: int) -> str:
    mib = count / MIB
    return f"{mib:.0f}" if mib >= 100 or mib == 0 else f"{mib:.3g}"


def _delta(adam: str, adan: str) -> str:
    if "–" in (adam, adan):
        return "–"
    return f"{100 * (float(_bare(adan)) / float(_bare(adam)) - 1):.2f}"


def starts_table(table: TableResult, memory: Mapping[str, Mapping[str, Any]]) -> Table:
    """Kernel starts of a step, what they cost, and what a step holds beside states: single- against multi-tensor."""
    if not table.rows:
        return Table("kernel starts", ["arm"], [])
    config = CONFIGURATIONS[0]  # the one whose memory is known; a file that is not finished may not have its times
    row = next((row for row in table.rows if _shape(row) == (config.layers, config.width)), table.rows[0])
    known = memory if _shape(row) == (config.layers, config.width) else {}
    rows = []
    for name in table.arms:
        held = known.get(f"step {config.name} {name}", {}).get("step_extra")
        launches = row.arms[name].launches
        rows.append(
            [
                name,
                "–" if launches is None else str(launches),
                milliseconds(row.arms[name]),
                "–" if held is None else MODELLED + _in_mib(held),
            ]
        )
    header = ["", "kernel starts", "ms per step", "MiB beside states"]
    return Table(f"one step over {row.cell.tensors} tensors ({row.cell.label})", header, rows)


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
    """How good the model is, where both are known; and what could not be measured."""
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
