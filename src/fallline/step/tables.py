"""Times and speeds of a table as text cells, and every number of it for CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from fallline.measure.stats import Estimate
from fallline.step.analyse import ArmResult, CellResult, TableResult
from fallline.step.layout import Table
from fallline.step.published.sources import GRID_NAMES

SUSPECT = " !"
"""Marks a number that a gate does not believe."""


def times(table: TableResult, exact: bool = False) -> Table:
    """Milliseconds per step and the winner; ``exact`` shows four decimals in the published layout."""
    grid = table.is_grid
    header = ["tensors", "size"] if grid else ["shapes", "M parameters"]
    if exact and grid:
        header = ["Parameters", "Parameter Size"]
        header += [f"`{GRID_NAMES.get(name, name)}` (ms/iter)" for name in table.arms]
        rows = [[*_place(row, grid), *(_four(row.arms[name]) for name in table.arms)] for row in table.rows]
        return Table(f"{table.title}: ms per step", header, rows, 0, keys=2)
    header += [*table.arms, "winner"]
    rows = [
        [*_place(row, grid), *(milliseconds(row.arms[name]) for name in table.arms), row.verdict()]
        for row in table.rows
    ]
    return Table(f"{table.title}: ms per step", header, rows, 0 if grid else 1, keys=2)


def speeds(table: TableResult) -> Table:
    """GB/s and the fraction of the limit."""
    grid = table.is_grid
    header = ["tensors", "size"] if grid else ["shapes", "M parameters"]
    header += [*table.arms, "limit GB/s"]
    rows = [[*_place(row, grid), *(_speed(row.arms[name]) for name in table.arms), _limit(row)] for row in table.rows]
    return Table(f"{table.title}: GB/s (fraction of the limit)", header, rows, 0 if grid else 1, keys=2)


def _place(row: CellResult, grid: bool) -> list[str]:
    if grid:
        return [str(row.cell.tensors), str(row.cell.size)]
    return [row.cell.label, f"{row.cell.elements / 1e6:.1f}"]


def scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor, estimate.count)


def milliseconds(arm: ArmResult) -> str:
    if arm.seconds is None:
        return "–"
    return scaled(arm.seconds, 1e3).short() + (SUSPECT if arm.wrong else "")


def _four(arm: ArmResult) -> str:
    if arm.seconds is None:
        return "–"
    return f"{arm.seconds.value * 1e3:.4f}" + (SUSPECT if arm.wrong else "")


def _speed(arm: ArmResult) -> str:
    if arm.gb_per_s is None:
        return "–"
    share = f" ({_fraction(arm.fraction.value)})" if arm.fraction else ""
    return arm.gb_per_s.short() + share + (SUSPECT if arm.wrong else "")


def _fraction(value: float) -> str:
    return f"{value:.2f}" if value >= 0.005 else "<0.01"


def _limit(row: CellResult) -> str:
    return row.limit.short() if row.limit else "–"


CSV_FIELDS = (
    "table", "label", "tensors", "size", "parameters", "threads", "flush", "dtype", "arm", "ms", "ms_low", "ms_high",
    "samples", "gb_per_s", "fraction_of_limit", "launches", "first_step_ms", "winner", "tied", "suspect", "missing",
    "record",
)  # fmt: skip


def as_csv(tables: Sequence[TableResult]) -> str:
    """One line per cell and arm."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_FIELDS, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        for row in table.rows:
            winners = _standing(table, row)
            for arm in row.arms.values():
                writer.writerow(_csv_line(table, row, arm, winners[arm.name]))
    return text.getvalue()


def _standing(table: TableResult, row: CellResult) -> dict[str, CellResult]:
    """Arm → the row of its optimizer alone, which has a winner of its own."""
    at = table.rows.index(row)
    return {name: part.rows[at] for part in table.parts().values() for name in part.arms}


def _csv_line(table: TableResult, row: CellResult, arm: ArmResult, among: CellResult) -> dict[str, Any]:
    cell = row.cell
    seconds = arm.seconds
    return {
        "table": table.title,
        "label": cell.label,
        "tensors": cell.tensors,
        "size": cell.size,
        "parameters": cell.elements,
        "threads": cell.threads,
        "flush": cell.flush,
        "dtype": cell.dtype,
        "arm": arm.name,
        "ms": seconds and seconds.value * 1e3,
        "ms_low": seconds and seconds.low * 1e3,
        "ms_high": seconds and seconds.high * 1e3,
        "samples": len(arm.samples),
        "gb_per_s": arm.gb_per_s and arm.gb_per_s.value,
        "fraction_of_limit": arm.fraction and arm.fraction.value,
        "launches": arm.launches,
        "first_step_ms": arm.first_seconds and arm.first_seconds * 1e3,
        "winner": among.winner,
        "tied": " ".join(among.tied),
        "suspect": "; ".join(arm.wrong),
        "missing": arm.missing,
        "record": cell.key,
    }


def as_data(table: TableResult) -> dict[str, Any]:
    """For JSON: every number with the record it came from."""
    rows = []
    for row in table.rows:
        among = _standing(table, row)
        lines = [_csv_line(table, row, arm, among[arm.name]) for arm in row.arms.values()]
        shared = ("label", "tensors", "size", "parameters", "threads", "flush", "dtype")
        rows.append(
            {
                **{name: lines[0][name] for name in shared},
                "winners": list(dict.fromkeys(one.winner for one in among.values())),
                "wrong": row.wrong,
                "limit_gb_per_s": row.limit and row.limit.value,
                "rounds": row.record.facts.get("rounds"),
                "stopped": row.record.facts.get("stopped"),
                "record": {"key": row.cell.key, "run": row.record.run, "measured": row.record.measured},
                "arms": {
                    line["arm"]: {k: v for k, v in line.items() if k not in (*shared, "table", "arm", "record")}
                    for line in lines
                },
            }
        )
    return {"title": table.title, "arms": table.arms, "missing": table.missing, "rows": rows}
