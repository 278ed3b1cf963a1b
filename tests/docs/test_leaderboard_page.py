"""``docs/leaderboard.md`` is made from exported tables; the entries in it are AlgoPerf's."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import ModuleType

import pytest

from fallline.race.contestants.presets import PRESETS
from fallline.race.contestants.toml_file import from_toml
from tests.docs.pages import DOCS, writer_of


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    return writer_of("leaderboard")


def test_the_entries_are_algoperfs_with_their_optimizers_schedules_and_averages() -> None:
    entries = from_toml(DOCS.parent / "benchmarks" / "leaderboard.toml")
    known = {name.removeprefix("algoperf_"): preset for name, preset in PRESETS.items()}
    assert [entry.name for entry in entries] == list(known)
    for entry in entries:
        preset = known[entry.name]
        assert (entry.optimizer, entry.schedule, entry.averaging) == (
            preset.optimizer,
            preset.schedule,
            preset.averaging,
        )
        assert dict(preset.settings).items() <= dict(entry.settings).items()


def test_the_page_is_current(writer: ModuleType) -> None:
    if not writer.TABLES.exists():
        pytest.skip("no leaderboard was run yet")
    assert writer.page() == writer.PAGE.read_text(encoding="utf-8"), "run `python docs/leaderboard_page.py`"


def write(folder: Path, name: str, *rows: dict[str, object]) -> None:
    with (folder / f"leaderboard-{name}.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def trial(contestant: str, study: int, steps: int | None, status: str | None = "reached") -> dict[str, object]:
    known = {"kind": "race", "workload": "w", "contestant": contestant, "study": study}
    return {**known, "steps_to_target": steps, "status": status, "training_seconds": 36, "evaluation_seconds": 18}


@pytest.fixture
def tables(writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On one workload: the baseline after 10 s, LAWA's queue after 20 s in most studies, Prodigy never."""
    monkeypatch.setattr(writer, "TABLES", tmp_path)
    machine = json.dumps({"cpu": "a processor", "cores": 2, "versions": {"torch": "2"}})
    cost = {"low": 0.1, "high": 0.1, "switch_seconds": 0, "state_bytes": 1, "parameter_bytes": 1, "machine": machine}
    names = ("baseline", "lawa_queue", "schedule_free_prodigy")
    write(tmp_path, "workloads", {"name": "w", "facts": json.dumps({"eval_every": 5})})
    write(tmp_path, "calibration", *({"workload": "w", "contestant": n, "step_seconds": 0.1, **cost} for n in names))
    steps = {"baseline": (90, 100, 110), "lawa_queue": (200, 200, None), "schedule_free_prodigy": (None, None, None)}
    write(tmp_path, "trials", *(trial(n, study, s) for n in names for study, s in enumerate(steps[n])))
    return tmp_path


def test_scores_times_costs_and_correlation(writer: ModuleType, tables: Path) -> None:
    text = writer.page()
    assert "| 1 | `baseline` | 1.00 |" in text and "| 3 | `schedule_free_prodigy` | 0.00 |" in text
    assert "| `lawa_queue` | 20 |" in text and "| `schedule_free_prodigy` | – |" in text
    assert "Kendall's τ = 1.00 (3 pairs in the same order, 0 in the other, of 3)" in text
    assert "0.1 hours of training and 0.0 of evaluation" in text and "a processor, 2 cores, torch 2" in text
    assert "All 9 trials have ended." in text


def test_an_unfinished_race_says_so_and_counts_complete_workloads_only(writer: ModuleType, tables: Path) -> None:
    ended = writer.rows("trials")
    begun = {**trial("baseline", 0, 5), "workload": "v"}, {**trial("baseline", 1, None, None), "workload": "v"}
    write(tables, "trials", *ended, *begun)
    text = writer.page()
    assert "**Not finished**: 10 of 11 trials have ended." in text
    assert "over the workloads that are complete (w); v will change them" in text
    assert "| `baseline` | 10 |" in text and "`v`" not in text
    write(tables, "trials", *begun)
    assert "(none)" in writer.page() and "Kendall" not in writer.page()


def test_correlation_counts_ties_as_neither(writer: ModuleType) -> None:
    assert writer.kendall([1, 2, 3], [3, 2, 1]) == (-1.0, 0, 3)
    tau, agree, disagree = writer.kendall([1.0, 0.0, 0.0], [0.7, 0.6, 0.5])
    assert (agree, disagree) == (2, 0) and tau == pytest.approx(2 / 6**0.5)


def test_entries_under_other_names_than_algoperfs_and_the_run_before_stand_beside_each_other(
    writer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored tables, with Shampoo and CASPR as copies of an entry."""
    for source in writer.TABLES.iterdir():
        if source.suffix == ".csv":
            lines = writer.rows(source.stem.removeprefix("leaderboard-"))
            copies = [
                {**line, "contestant": name}
                for name in writer.IN_LOGS
                for line in lines
                if line.get("contestant") == "baseline" and name not in {row["contestant"] for row in lines}
            ]
            write(tmp_path, source.stem.removeprefix("leaderboard-"), *lines, *copies)
        else:
            (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(writer, "TABLES", tmp_path)
    page = writer.page()
    assert "This run was without" not in page and "of these 11 entries" in page
    (shampoo,) = [line for line in page.splitlines() if "| `shampoo` |" in line and "0.7784" in line]
    assert shampoo.endswith("| 0.7784 |")
    assert "An earlier run, on another machine and with 9 of them, gave 0.17; the same 9 give" in page
