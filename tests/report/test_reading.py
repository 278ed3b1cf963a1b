"""Every kind of stored result becomes a section, by the verb that wrote it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fallline.document.blocks import Document, Note, Paragraph, Provenance, Table, Verdict
from fallline.document.cells import Column, Number, Text
from fallline.document.cells import Mark as CellMark
from fallline.document.figures import Bar, Chart, HeatMap, Mark, Part, StackedBars
from fallline.document.html.page import Section
from fallline.document.stored import stored_text
from fallline.measure.store import StoreError
from fallline.race.results import Results
from fallline.report.composing import report
from fallline.report.reading import read
from tests.report import stored_logs, stored_race, stored_steps


def facts(section: Section) -> dict[str, str]:
    return dict(section.document.provenance.facts)


def table(section: Section, start: str) -> Table:
    blocks = (*section.document.blocks, *section.document.appendix)
    return next(block for block in blocks if isinstance(block, Table) and block.title.startswith(start))


def test_a_race_brings_its_pairs_its_runs_and_its_command(tmp_path: Path) -> None:
    path = stored_race(tmp_path)
    with Results(path) as results:
        machine = {"cpu": "A processor", "cores": 2, "commit": "abc", "versions": {"torch": "2.13"}}
        results.start_run(machine, ["race", "tiny.py", "--seed", "0", "--anew", "--results", str(path)])
    found = read(path)
    pairs = table(found, "Pairs that can and cannot be told apart").texts
    assert len(pairs) == 6 and ["a", "slow"] in [row[:2] for row in pairs]
    answers = {tuple(row[:2]): row[-1] for row in pairs}
    assert answers["a", "slow"] == "a is better" and answers["a", "b"] == "cannot be told apart"
    assert "A processor, 2 cores" in found.document.provenance.machine and "abc" in found.document.provenance.machine
    assert facts(found)["to repeat it"] == "fallline race tiny.py --seed 0" and facts(found)["seed"] == "0"
    assert found.kind == "Race" and any(isinstance(block, Verdict) for block in found.document.blocks)


def test_the_answers_of_pairs_follow_from_their_intervals(tmp_path: Path) -> None:
    pairs = table(read(stored_race(tmp_path)), "Pairs")
    for row in pairs.rows:
        low, high = row[3].low, row[3].high  # type: ignore[union-attr]
        apart = low > 0 or high < 0  # type: ignore[operator]
        assert ("is better" in row[4].value) == apart  # type: ignore[union-attr,operator]


def test_steps_bring_a_map_and_a_roofline(tmp_path: Path) -> None:
    found = read(stored_steps(tmp_path))
    assert any(isinstance(block, HeatMap) for block in found.document.blocks)
    roofline, _ = [block for block in found.document.appendix if isinstance(block, Chart)]  # in caches, and flushed
    assert [series.name for series in roofline.series] == ["eager", "fused", "limit"]
    fused, limit = roofline.series[1:]
    assert list(fused.x) == sorted(fused.x) and len(fused.x) > 1
    assert all(0.6 < speed / most < 1.0 for speed, most in zip(fused.y, limit.y, strict=True)), "1 / 1.2 of the limit"
    assert facts(found)["to repeat it"] == "fallline step --tensors 1,8"


def test_logs_bring_profiles_with_intervals(tmp_path: Path) -> None:
    found = read(stored_logs(tmp_path))
    (profiles,) = [block for block in found.document.figures if block.name == "profiles"]
    assert isinstance(profiles, Chart)
    for series in profiles.series:
        assert series.low is not None and series.high is not None
        assert all(a <= b <= c for a, b, c in zip(series.low, series.y, series.high, strict=True))
    assert len(table(found, "Pairs").rows) == 1


def stored_memory(folder: Path) -> Path:
    """An answer of ``fallline memory``, as that stores it."""
    columns = [Column("change", align="left", key=True, prose=True), Column("saves\nGB", unit="GB", digits="three")]
    table = Table("Changes", columns, [[Text("--state-dtype int8", CellMark.WARNING), Number(9.3)]])
    bars = StackedBars("memory", "At the peak", "GB", [Bar("gpt", [Part("weights", 3.0)])], [Mark(24.0, "24 GB")])
    blocks = [Paragraph("gpt: 1 M parameters"), bars, table, Note("a note"), Verdict("It trains on 24 GB.")]
    path = folder / "memory.json"
    facts = [("to repeat it", "fallline memory gpt")]
    path.write_text(stored_text(Document(blocks, Provenance(machine="a machine", facts=facts)), "memory"))
    return path


def test_an_answer_about_memory_is_a_result_among_others(tmp_path: Path) -> None:
    path = stored_memory(tmp_path)
    made = report([path, stored_steps(tmp_path)])
    memory, _ = made.sections
    assert (memory.name, memory.kind) == ("memory", "Memory") and made.verdicts[0] == ["It trains on 24 GB."]
    (found,) = memory.document.figures
    assert isinstance(found, StackedBars) and found.bars[0].total == 3.0 and found.limits == (Mark(24.0, "24 GB"),)
    assert table(memory, "Changes").rows[0] == (Text("--state-dtype int8", CellMark.WARNING), Number(9.3))
    where = memory.document.provenance
    assert where.file == str(path) and len(where.data) == 10 and facts(memory)["to repeat it"] == "fallline memory gpt"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[: len(text) // 2], "a damaged results file, which ends early"),
        (lambda text: text.replace("9.3", "1.3"), "its content has changed since it was written"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "has format 9, and this version reads 1"),
        (lambda text: '{"model": "gpt"}', "no results file, and no AlgoPerf logs"),
        (lambda text: "{" * 100_000, "no results file, and no AlgoPerf logs"),
    ],
)
def test_answers_that_cannot_be_read_are_refused_in_one_line(
    tmp_path: Path, change: Callable[[str], str], told: str
) -> None:
    path = stored_memory(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(StoreError, match=told) as raised:
        read(path)
    assert "\n" not in str(raised.value) and str(path) in str(raised.value)


def test_a_report_holds_each_file_once_in_the_order_given(tmp_path: Path) -> None:
    race, steps = stored_race(tmp_path), stored_steps(tmp_path)
    made = report([steps, race, tmp_path / "." / "step.sqlite"])
    assert [section.kind for section in made.sections] == ["Step", "Race"] and made.remarks == ()
    assert made.title == "step, race-tiny"


def test_files_of_one_name_have_their_folders_on_the_tabs(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("monday", "tuesday")]
    for folder in folders:
        folder.mkdir()
    made = report([stored_memory(folder) for folder in folders] + [stored_steps(tmp_path)])
    assert [section.name for section in made.sections] == ["monday/memory", "tuesday/memory", "step"]


def test_races_on_different_workloads_are_said_not_to_be_compared(tmp_path: Path) -> None:
    (remark,) = report([stored_race(tmp_path), stored_race(tmp_path, "other")]).remarks
    assert remark.endswith("race-tiny.sqlite (tiny), race-other.sqlite (other)") and "not compared" in remark


def test_a_race_without_a_finished_trial_is_shown_as_such(tmp_path: Path) -> None:
    from tests.race.test_results import begun

    path = begun.__wrapped__(tmp_path)  # type: ignore[attr-defined]
    found = read(path)
    verdicts = [block.text for block in found.document.blocks if isinstance(block, Verdict)]
    assert verdicts[0].startswith("The race has not ended")
    assert "The race has not ended" in report([path]).content()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "an empty file, nothing has been stored in it"),
        (b"a note\n", "no results file, and no AlgoPerf logs"),
        (b"SQLite format 3\0" + bytes(4000), "damaged results file|not a results file"),
    ],
)
def test_files_that_hold_no_results_are_refused_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=told) as raised:
        read(path)
    assert "\n" not in str(raised.value) and str(path) in str(raised.value)


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = stored_race(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("pragma journal_mode = delete")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(StoreError, match="a damaged results file"):
        read(path)


def test_databases_of_others_and_folders_without_logs_are_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.sqlite").execute("create table t (x)").connection.close()
    with pytest.raises(StoreError, match="a database, but not one that fallline wrote"):
        read(tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match="no AlgoPerf logs are in this folder"):
        read(tmp_path)
    with pytest.raises(StoreError, match="there is no such results file"):
        read(tmp_path / "nothing")
