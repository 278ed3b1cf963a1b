"""``fallline results``: a stored race is shown, exported, and calibrated with the consent of who runs it."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest

from tests.cli import Command
from tests.race import write_workload

QUICK = ["-o", "adamw", "-o", "lion", "--trials", "1", "--studies", "2", "--clock", "steps", "-j", "1", "-q"]


@pytest.fixture
def stored(fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A race that has ended, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    assert fallline("race", str(write_workload(tmp_path)), *QUICK).code == 0
    return tmp_path / "race-tiny.sqlite"


def test_the_only_race_of_a_folder_needs_no_name(fallline: Command, stored: Path) -> None:
    assert fallline("results", "status").out == fallline("results", "status", "race-tiny.sqlite").out
    assert "tiny: target mse 4," in fallline("results", "status").out
    (stored.parent / "race-other.sqlite").write_bytes(b"")
    ended = fallline("results", "status")
    assert ended.code == 2 and "name the results file; here are race-other.sqlite, race-tiny.sqlite" in ended.err


def test_a_race_in_markdown_and_csv(fallline: Command, stored: Path) -> None:
    page = fallline("results", "status", str(stored), "--format", "markdown").out
    assert "| # | contestant | steps to target |" in page and page.splitlines()[-1].startswith("- ")
    rows = list(csv.DictReader(io.StringIO(fallline("results", "status", str(stored), "--format", "csv").out)))
    assert {row["contestant"] for row in rows} == {"adamw", "lion"}
    assert {row["studies reached, of"] for row in rows} == {"2", ""}, "one line per contestant and table"


def test_export_names_the_files_it_wrote(fallline: Command, stored: Path, tmp_path: Path) -> None:
    written = fallline("results", "export", str(stored), "--out", str(tmp_path / "tables")).out.split()
    assert [Path(name).name for name in written][:2] == ["race-tiny-workloads.csv", "race-tiny-trials.csv"]
    assert (
        json.loads(fallline("results", "export", str(stored), "--out", str(tmp_path / "tables"), "--json").out)
        == written
    )
    assert fallline("results", "export", str(stored), "--quiet").out == "" and Path("race-tiny-trials.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "/no/such.sqlite"], "no such results file"),
        (["status", "tiny.py"], "not a results file"),
        (["export", "race-tiny.sqlite", "--format", "xlsx"], "--format must be csv or parquet, got 'xlsx'"),
        (["export", "tiny.py", "--format", "csv"], "not a results file"),
        (["calibrate", "/no/such.sqlite"], "no such results file"),
        (["calibrate", "race-tiny.sqlite", "other.py"], "other.py: was not raced in race-tiny.sqlite; leave it out"),
        (["show"], "No such command 'show'"),
        (["ask", "race-tiny.sqlite", "--between", "adamw,prodigy"], "prodigy did not race; there are adamw, lion"),
        (["ask", "race-tiny.sqlite", "--between", "adamw,"], "give names with commas between them"),
        (["ask", "race-tiny.sqlite", "--within", "5"], "--within must be a share"),
        (["ask", "race-tiny.sqlite"], "adamw has not run 3 studies"),
    ],
)
def test_bad_input_is_one_line(fallline: Command, stored: Path, arguments: list[str], said: str) -> None:
    ended = fallline("results", *arguments)
    assert ended.code == 2 and said in ended.err, ended.err
    assert len(ended.err.strip().splitlines()) == 1 and ended.out == ""


def test_code_that_a_results_file_names_runs_only_with_consent(fallline: Command, stored: Path, tmp_path: Path) -> None:
    """Anybody may have written the file: nothing that it names is even imported."""
    (tmp_path / "tiny.py").write_text("raise SystemExit('it ran')\n")
    ended = fallline("results", "calibrate", str(stored))
    assert ended.code == 2 and "it ran" not in ended.err
    assert f"would run the code in {tmp_path / 'tiny.py'}; if you trust it, name it" in ended.err
    write_workload(tmp_path)
    pasted = shlex.split(ended.err.split("`")[1])
    assert pasted == ["fallline", "results", "calibrate", str(stored), "tiny.py"]
    ended = fallline(*pasted[1:])
    assert ended.code == 1 and "there is no clock to measure" in ended.err, "consent goes as far as the race itself"
    assert fallline("results", "calibrate", str(stored), "tiny.py:workload").code == 1, "however the file is named"


def test_optimizers_of_ones_own_need_consent_too(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("import torch\n\n\nclass Mine(torch.optim.SGD):\n    pass\n")
    fixed = ["--trials", "1", "--studies", "1", "--clock", "steps", "-j", "1", "-q"]
    assert fallline("race", str(write_workload(tmp_path)), "-o", "adamw,mine.py:Mine", *fixed).code == 0
    ended = fallline("results", "calibrate", "race-tiny.sqlite", "tiny.py")
    assert ended.code == 2 and f"{tmp_path / 'tiny.py'}, {tmp_path / 'mine.py'}" in ended.err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            ["race", "--status", "--results", "race-tiny.sqlite", "--json"],
            ["results", "status", "race-tiny.sqlite", "--json"],
        ),
        (["race", "tiny.py", "--status"], ["results", "status", "race-tiny.sqlite"]),
        (["race", "--status"], ["results", "status", "race-tiny.sqlite"]),
        (
            ["race", "--export", "csv", "--results", "race-tiny.sqlite", "--out", "a folder"],
            ["results", "export", "race-tiny.sqlite", "--format", "csv", "--out", "a folder"],
        ),
        (["race", "--contestants", "list", "--json"], ["contestants", "--json"]),
    ],
)
def test_old_flags_answer_with_a_command_that_works(
    fallline: Command, stored: Path, old: list[str], new: list[str]
) -> None:
    ended = fallline(*old)
    assert ended.code == 2 and ended.out == "" and len(ended.err.strip().splitlines()) == 1
    pasted = shlex.split(ended.err.split("`")[1])
    assert pasted == ["fallline", *new]
    assert fallline(*pasted[1:]).code == 0


def test_the_old_way_to_calibrate_names_the_files_that_will_run(
    fallline: Command, stored: Path, tmp_path: Path
) -> None:
    ended = fallline("race", "--calibrate", "--results", str(stored))
    expected = ["fallline", "results", "calibrate", str(stored), "tiny.py"]
    assert ended.code == 2 and shlex.split(ended.err.split("`")[1]) == expected
