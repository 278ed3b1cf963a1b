"""``fallline contestants``: who can race, in which space each is tuned, and its setting without tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fallline.cli.options import grouped
from fallline.cli.output import NamesOnly, Written, emit

if TYPE_CHECKING:
    from fallline.document.blocks import Document


@grouped
def contestants(
    *,
    shown: Written,
    quiet: NamesOnly = False,
) -> None:
    """List who can race. Every optimizer has a space in which it is tuned; AlgoPerf's entries have points."""
    form = shown.checked()
    from fallline.document.blocks import names_document

    rows = listing()
    able = [row["name"] for row in rows if not row.get("missing")]
    emit(names_document(able) if quiet else document(rows), form, out=shown.out)


def listing() -> list[dict[str, Any]]:
    """``settings`` are what a contestant runs with where nothing is tuned."""
    from fallline.race.contestants import from_preset
    from fallline.race.contestants.presets import PRESETS
    from fallline.race.contestants.spaces import NOT_RACED, TUNING

    rows: list[dict[str, Any]] = [
        {"name": name, "optimizer": name, "schedule": t.schedule, "settings": dict(t.settings), "space": dict(t.space)}
        for name, t in TUNING.items()
    ]
    rows += [{"name": name, "optimizer": name, "missing": why} for name, why in NOT_RACED.items()]
    for name, preset in PRESETS.items():
        rows.append(
            {
                "name": name,
                "optimizer": preset.optimizer,
                "schedule": preset.schedule,
                "averaging": preset.averaging,
                "settings": from_preset(name, preset).one_setting(),
                "points": len(preset.points),
            }
        )
    return rows


def document(rows: list[dict[str, Any]]) -> Document:
    from fallline.document.blocks import Document, Paragraph, Table
    from fallline.document.cells import Cell, Column, Missing, Text

    columns = (
        Column("name", align="left", key=True),
        Column("schedule", align="left"),
        Column("tuned in; untuned", align="left", prose=True),
    )
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        if row.get("missing"):
            cells.append((Text(row["name"]), Missing(row["missing"]), Text(f"not there: {row['missing']}")))
            continue
        average = f", {row['averaging']}" if row.get("averaging") else ""
        settings = ", ".join(f"{key} {_value(value)}" for key, value in row["settings"].items())
        cells.append((Text(row["name"]), Text(row["schedule"] + average), Text(f"{_space(row)}; untuned: {settings}")))
    own = Paragraph("FILE.py:Class enters an optimizer of your own, at its defaults.")
    return Document((Table("", columns, cells), own), result=rows)


def _space(row: dict[str, Any]) -> str:
    if "points" in row:
        return f"{row['points']} points of its AlgoPerf entry"
    return ", ".join(_dimension(name, dimension) for name, dimension in row["space"].items())


def _dimension(name: str, dimension: Any) -> str:
    if "feasible_points" in dimension:
        return f"{name} in {'/'.join(f'{p:g}' for p in dimension['feasible_points'])}"
    return f"{name} {dimension['min']:g}–{dimension['max']:g} ({dimension['scaling']})"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(_value, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
