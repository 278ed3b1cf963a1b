"""Times and speeds of a step as tables, and all their numbers for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Mark, Missing, Number, Text, text_of
from fallline.step.analyse import ArmResult, CellResult, TableResult
from fallline.step.published.sources import GRID_NAMES

TIME = Column("ms per step", unit="ms", digits="supported")


def times(table: TableResult, exact: bool = False) -> Table:
    """Milliseconds per step and the winner; ``exact`` shows four decimals in the published layout."""
    title, grid = f"{table.title}: ms per step", table.is_grid
    if exact and grid:
        places = [Column(name, key=True, digits="whole") for name in ("Parameters", "Parameter Size")]
        arms = [Column(f"`{GRID_NAMES.get(name, name)}` (ms/iter)", unit="ms", digits=4) for name in table.arms]
        rows = [[*_place(row, grid), *(time_cell(row.arms[name]) for name in table.arms)] for row in table.rows]
        return Table(title, [*places, *arms], rows, detail=True)
    columns = [*_places(grid), *(Column(name, unit="ms", digits="supported") for name in table.arms), Column("winner")]
    rows = [
        [*_place(row, grid), *(time_cell(row.arms[name], row.winner) for name in table.arms), _winner(row)]
        for row in table.rows
    ]
    return Table(title, columns, rows, detail=True)


def speeds(table: TableResult) -> Table:
    """GB/s and the fraction of the limit."""
    grid = table.is_grid
    names = [*table.arms, "limit GB/s"]
    columns = [*_places(grid), *(Column(name, unit="GB/s", digits="supported") for name in names)]
    rows = [[*_place(row, grid), *(_speed(row.arms[name]) for name in table.arms), _limit(row)] for row in table.rows]
    return Table(f"{table.title}: GB/s (fraction of the limit)", columns, rows, detail=True)


def _places(grid: bool) -> list[Column]:
    if grid:
        return [Column(name, key=True, digits="whole") for name in ("tensors", "size")]
    return [Column("shapes", align="left", key=True), Column("M parameters", key=True, digits=1)]


def _place(row: CellResult, grid: bool) -> list[Cell]:
    if grid:
        return [Number(row.cell.tensors), Number(row.cell.size or 0)]
    return [Text(row.cell.label), Number(row.cell.elements / 1e6)]


def _winner(row: CellResult) -> Cell:
    return Text(row.verdict(), Mark.SET_ASIDE if row.wrong else None)


def time_cell(arm: ArmResult, winner: str | None = None) -> Cell:
    """Milliseconds per step."""
    if arm.seconds is None:
        return Missing(arm.missing or "")
    ms = arm.seconds
    mark = Mark.SUSPECT if arm.wrong else Mark.FASTEST if arm.name == winner else None
    return Number(ms.value * 1e3, ms.low * 1e3, ms.high * 1e3, mark)


def milliseconds(arm: ArmResult) -> str:
    """The same as text."""
    return text_of(time_cell(arm), TIME)


def _speed(arm: ArmResult) -> Cell:
    if arm.gb_per_s is None:
        return Missing(arm.missing or "")
    share = Number(arm.fraction.value, digits="share") if arm.fraction else None
    found = arm.gb_per_s
    return Number(found.value, found.low, found.high, Mark.SUSPECT if arm.wrong else None, beside=share)


def _limit(row: CellResult) -> Cell:
    return Number(row.limit.value, row.limit.low, row.limit.high) if row.limit else Missing()


# ------------------------------------------------------------------ for programs

FIELDS = (
    "table", "label", "tensors", "size", "parameters", "threads", "flush", "dtype", "arm", "ms", "ms_low", "ms_high",
    "samples", "gb_per_s", "fraction_of_limit", "launches", "first_step_ms", "winner", "tied", "suspect", "missing",
    "record",
)  # fmt: skip


def records(tables: Sequence[TableResult]) -> Table:
    """One line per cell and arm."""
    lines = [
        _line(table, row, arm, among[arm.name])
        for table in tables
        for row, among in ((row, _standing(table, row)) for row in table.rows)
        for arm in row.arms.values()
    ]
    rows = [[_record(line[name]) for name in FIELDS] for line in lines]
    return Table("", [Column(name, name=name) for name in FIELDS], rows)


def _record(value: Any) -> Cell:
    if value is None:
        return Missing()
    return Number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else Text(str(value))


def _standing(table: TableResult, row: CellResult) -> dict[str, CellResult]:
    """Arm → the row of its optimizer alone, which has its own winner."""
    at = table.rows.index(row)
    return {name: part.rows[at] for part in table.parts().values() for name in part.arms}


def _line(table: TableResult, row: CellResult, arm: ArmResult, among: CellResult) -> dict[str, Any]:
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
    """Every number with the record that it came from, for JSON."""
    rows = []
    for row in table.rows:
        among = _standing(table, row)
        lines = [_line(table, row, arm, among[arm.name]) for arm in row.arms.values()]
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
