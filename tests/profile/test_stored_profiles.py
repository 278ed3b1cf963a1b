"""A results file says by itself what was trained, on which device, and what could not be read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fallline.document.blocks import Document, Table, Verdict
from fallline.measure import gpu
from fallline.measure.gpu import Unreadable, Use
from fallline.profile.arms import arms_of
from fallline.profile.cell import Limits, Telling, measure
from fallline.profile.document import document
from fallline.profile.plan import Plan
from fallline.profile.results import Results
from fallline.report.reading import read

SMALL = "gpt-tiny@layers=1,width=32,heads=2,batch=2,sequence=16"
MINE = """
import torch
import fallline

def workload():
    return fallline.Workload(
        name="plain", model=lambda seed: torch.nn.Linear(4, 1), batch=lambda step, seed: torch.ones(8, 4),
        loss=lambda model, x: model(x).square().mean(), evaluate=lambda model: 0.25, metric="accuracy",
        direction="higher", data_name="ones", max_steps=50)
"""


def profiled(path: Path, workload: str) -> Plan:
    plan = Plan(workload, tuple(arms_of(["adamw,lion"])), "adamw", repeats=2)
    with Results(path) as results:
        results.begin([plan], ["profile", workload])
        measure(plan, results, Limits(steps=4), Telling())
    return plan


def made(path: Path) -> Document:
    with Results(path, writable=False) as results:
        return document(results)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The profile of a user's workload, whose file is gone."""
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    profiled(tmp_path / "p.sqlite", str(file))
    file.unlink()
    return tmp_path / "p.sqlite"


def test_a_users_profile_is_reported_without_its_file(mine: Path) -> None:
    section = read(mine)
    assert section.kind == "Profile"
    told = [block.text for block in section.document.blocks if isinstance(block, Verdict)]
    assert "ends at the same accuracy" in told[-1]
    head = section.document.blocks[0].text  # type: ignore[union-attr]
    assert "mine.py: a model of 5 parameters; fp32 on cpu" in head and "data: ones;" in head
    result = section.document.result
    assert result["workload"] == {
        **{"name": "plain", "model": "", "data": "ones", "metric": "accuracy"},
        **{"direction": "higher", "draws_labels": False},
    }


def test_a_file_of_the_first_format_is_read_as_far_as_it_goes_and_completed_by_its_command(
    mine: Path, tmp_path: Path
) -> None:
    as_in_format_1(mine)
    earlier = made(mine)
    (note,) = [note for note in earlier.result["notes"] if "an earlier fallline" in note]
    assert "mine.py" in note and earlier.result["workload"]["metric"] == "metric"
    (tmp_path / "mine.py").write_text(MINE)
    plan = profiled(mine, str(tmp_path / "mine.py"))
    now = made(mine)
    assert now.result["workload"]["metric"] == "accuracy" and not any("earlier" in n for n in now.result["notes"])
    assert now.result["data"] == earlier.result["data"], "no step was taken again"
    with Results(mine, writable=False) as results:
        assert results.load(plan).is_complete


def test_a_file_of_the_first_format_needs_nothing_more_for_a_workload_of_fallline(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    profiled(path, SMALL)
    now = made(path)
    as_in_format_1(path)
    assert made(path).result == now.result


def as_in_format_1(path: Path) -> None:
    with sqlite3.connect(path) as database:
        kept = "id, key, place, plan, counts, facts"
        database.executescript(
            f"""
            create table before as select {kept} from cell;
            drop table cell;
            create table cell (id integer primary key, key text not null unique, place integer not null,
                plan text not null, counts text, facts text not null);
            insert into cell ({kept}) select {kept} from before;
            drop table before;
            pragma user_version = 1;
            """
        )
    database.close()


def resources(found: Document) -> Table:
    (table,) = [block for block in found.blocks if isinstance(block, Table) and block.title == "Resources"]
    return table


def test_the_use_of_a_gpu_is_a_column_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled(tmp_path / "cpu.sqlite", SMALL)
    assert not any(column.title.startswith("GPU") for column in resources(made(tmp_path / "cpu.sqlite")).columns)
    monkeypatch.setattr(gpu, "PERIOD", 0.0)
    monkeypatch.setattr(gpu, "APART", 0.0)
    monkeypatch.setattr(gpu, "read", lambda device: Use(87.0, 2_000_000_000))
    profiled(tmp_path / "gpu.sqlite", SMALL)
    table = resources(made(tmp_path / "gpu.sqlite"))
    at = [column.title for column in table.columns].index("GPU use %")
    assert [row[at : at + 2] for row in table.texts] == [["87", "2,000"]] * 2


def test_a_gpu_that_cannot_be_read_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(device: str) -> Use:
        raise Unreadable("pynvml is not there")

    monkeypatch.setattr(gpu, "read", unreadable)
    profiled(tmp_path / "p.sqlite", SMALL)
    found = made(tmp_path / "p.sqlite")
    assert "the use of the GPU could not be read: pynvml is not there" in found.result["notes"]
