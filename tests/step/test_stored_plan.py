"""A results file can be shown by itself, whoever measured it and by which command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fallline.measure.store import StoreError
from fallline.step.plan import Cell, Conditions, Plan, arms_of, expand, grid
from fallline.step.published.presets import adan_gpt2
from fallline.step.results import Results
from fallline.step.stored_plan import as_command, cell_of, stored_plan
from tests.step.records import record


def plan(names: tuple[str, ...] = ("eager", "fused")) -> Plan:
    arms = arms_of("adam", names, {"betas": (0.9, 0.99)}, "float32")
    rows = grid([1, 2], [100, 200], arms)
    return Plan("own", tuple(expand(rows, Conditions(threads=(1,)), "adam")), ("a note",))


def store(path: Path, measured: Plan, command: dict[str, object], cells: tuple[Cell, ...] | None = None) -> None:
    with Results(path) as results:
        results.begin(command)
        for cell in reversed(measured.cells if cells is None else cells):  # as if in random order
            results.put(record(cell, {arm.label: 1e-3 for arm in cell.arms}))


def test_the_plan_comes_back_with_its_order_and_notes(tmp_path: Path) -> None:
    made = plan()
    store(tmp_path / "r.sqlite", made, as_command(made, ["step"]))
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        assert stored_plan(results) == made
        assert [one.cell for one in results.load(stored_plan(results).cells)] == list(made.cells)


def test_cells_that_are_not_measured_yet_are_counted(tmp_path: Path) -> None:
    made = plan()
    store(tmp_path / "r.sqlite", made, as_command(made, ["step"]), made.cells[:3])
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        found = stored_plan(results)
    assert found.cells == made.cells[:3]
    assert found.notes == ("a note", "not measured yet: 5 cells; the same command goes on")


def test_files_from_before_are_shown_in_the_order_of_a_table(tmp_path: Path) -> None:
    """Runs did not store their plan then; cells of another list of arms are another table's."""
    other, last = plan(("eager", "foreach")), plan()
    store(tmp_path / "r.sqlite", other, {"arguments": ["step"]})
    store(tmp_path / "r.sqlite", last, {"arguments": ["step", "--impl", "eager,fused"]})
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        assert stored_plan(results).cells == last.cells


def test_presets_are_known_by_their_name(tmp_path: Path) -> None:
    made = adan_gpt2(Conditions(threads=(2,)))
    store(tmp_path / "r.sqlite", made, {"arguments": ["step", "--preset=adan-gpt2"]})
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        found = stored_plan(results)
    assert found.name == "adan-gpt2" and found.with_memory


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    with Results(tmp_path / "r.sqlite") as results, pytest.raises(StoreError, match="holds no measurements yet"):
        stored_plan(results)


def test_a_cell_keeps_its_key() -> None:
    import dataclasses

    for cell in plan().cells:
        assert cell_of(json.loads(json.dumps(dataclasses.asdict(cell)))) == cell
