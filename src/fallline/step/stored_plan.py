"""The plan behind a results file, read from the file alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fallline.measure.store import StoreError
from fallline.step.plan import Arm, Cell, Plan
from fallline.step.published.presets import ADAM_GRID, ADAN_GPT2
from fallline.step.results import Results

OWN = "own"


def as_command(plan: Plan, arguments: list[str]) -> dict[str, Any]:
    """The part of a plan that a run stores, so that results can be shown without the original options."""
    about = {"name": plan.name, "notes": list(plan.notes), "cells": [cell.key for cell in plan.cells]}
    return {"arguments": arguments, "plan": about}


def stored_plan(results: Results) -> Plan:
    """The plan of the last run; only data is loaded, even if shapes came from a user's file."""
    runs = results.store.rows("select command from run order by id desc limit 1")
    stored = {
        row["key"]: cell_of(json.loads(row["specification"]))
        for row in results.store.rows("select key, specification from cell order by id")
    }
    if not runs or not stored:
        raise StoreError(f"{results.store.path}: holds no measurements yet; leave --show out")
    command = json.loads(runs[0]["command"])
    about = command.get("plan")
    if about is None:  # written before runs stored their plan
        return _guessed(command.get("arguments", []), list(stored.values()))
    cells = tuple(stored[key] for key in about["cells"] if key in stored)
    notes = [*about["notes"], *_missing(len(about["cells"]) - len(cells))]
    return Plan(about["name"], cells, tuple(notes), with_memory=about["name"] == ADAN_GPT2)


def _missing(count: int) -> list[str]:
    return [f"not measured yet: {count} cells; the same command goes on"] if count else []


def _guessed(arguments: list[str], cells: list[Cell]) -> Plan:
    """All cells with the arms of the last one, in the order of a table, because they were measured in random order."""
    name = next((preset for preset in (ADAM_GRID, ADAN_GPT2) if any(preset in word for word in arguments)), OWN)
    last = {arm.label for arm in cells[-1].arms}
    alike = [cell for cell in cells if {arm.label for arm in cell.arms} == last]
    alike.sort(key=lambda cell: (cell.threads, not cell.flush, cell.table, cell.size or 0, cell.elements))
    return Plan(name, tuple(alike), with_memory=name == ADAN_GPT2)


def cell_of(specification: Mapping[str, Any]) -> Cell:
    """A cell from its JSON, whose lists become tuples again."""
    arms = tuple(
        Arm(**{**arm, "options": tuple((name, _tuples(value)) for name, value in arm["options"])})
        for arm in specification["arms"]
    )
    return Cell(**{**specification, "arms": arms, "shapes": _tuples(specification["shapes"])})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
