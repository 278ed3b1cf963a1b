"""``fallline race --contestants list``: who can race, and in which space each is tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def listing() -> list[dict[str, Any]]:
    from fallline.race.presets import PRESETS
    from fallline.race.spaces import NOT_RACED, TUNING

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
                "points": len(preset.points),
                "missing": preset.missing,
            }
        )
    return rows


def show_listing(console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "schedule", "tuned in"):
        table.add_column(column, overflow="fold")
    for row in listing():
        if row.get("missing"):
            table.add_row(row["name"], "–", f"not there: {row['missing']}")
            continue
        if "points" in row:
            average = f", {row['averaging']}" if row["averaging"] else ""
            table.add_row(row["name"], row["schedule"] + average, f"{row['points']} points of its AlgoPerf entry")
            continue
        table.add_row(row["name"], row["schedule"], ", ".join(_dimension(n, d) for n, d in row["space"].items()))
    console.print(table)


def _dimension(name: str, dimension: Any) -> str:
    if "feasible_points" in dimension:
        return f"{name} in {'/'.join(f'{p:g}' for p in dimension['feasible_points'])}"
    return f"{name} {dimension['min']:g}–{dimension['max']:g} ({dimension['scaling']})"
