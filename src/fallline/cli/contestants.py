"""``fallline race --contestants list``: who can race, in which space each is tuned, and its setting without tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def listing() -> list[dict[str, Any]]:
    """``settings`` are what a contestant runs with where nothing is tuned."""
    from fallline.race.contestants import from_preset
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
                "settings": {} if preset.missing else from_preset(name, preset).one_setting(),
                "points": len(preset.points),
                "missing": preset.missing,
            }
        )
    return rows


def show_listing(console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "schedule", "tuned in; untuned"):
        table.add_column(column, overflow="fold")
    for row in listing():
        if row.get("missing"):
            table.add_row(row["name"], "–", f"not there: {row['missing']}")
            continue
        average = f", {row['averaging']}" if row.get("averaging") else ""
        if "points" in row:
            space = f"{row['points']} points of its AlgoPerf entry"
        else:
            space = ", ".join(_dimension(name, dimension) for name, dimension in row["space"].items())
        settings = ", ".join(f"{name} {_value(value)}" for name, value in row["settings"].items())
        table.add_row(row["name"], row["schedule"] + average, f"{space}; untuned: {settings}")
    console.print(table)
    console.print("FILE.py:Class enters an optimizer of your own, at its defaults.")


def _dimension(name: str, dimension: Any) -> str:
    if "feasible_points" in dimension:
        return f"{name} in {'/'.join(f'{p:g}' for p in dimension['feasible_points'])}"
    return f"{name} {dimension['min']:g}–{dimension['max']:g} ({dimension['scaling']})"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(_value, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
