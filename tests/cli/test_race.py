"""``fallline race``: a user's file just works, plans, states, exports, and bad input in one line."""

from __future__ import annotations

import csv
import itertools
import json
import sqlite3
import sys
from pathlib import Path

import pytest

from fallline.cli.race.options import Design
from fallline.cli.race.request import read_entries, read_rules, read_share
from tests.cli import Command
from tests.race import write_workload

QUICK = ["-o", "adamw", "-o", "twin=adamw", "--trials", "1", "--studies", "2", "--clock", "steps", "-j", "1"]


@pytest.fixture
def raced(fallline: Command, tmp_path: Path) -> tuple[Path, str]:
    """A race that has ended, and what it printed."""
    path = tmp_path / "r.sqlite"
    ended = fallline("race", str(write_workload(tmp_path)), *QUICK, "--results", str(path))
    assert ended.code == 0, ended.err
    return path, ended.out


def test_a_users_file_just_works_and_its_results_can_be_read(
    fallline: Command, raced: tuple[Path, str], tmp_path: Path
) -> None:
    path, text = raced
    assert "tiny: target mse 4," in text and "studies" in text
    assert "no result of fewer than 5 studies" in text.splitlines()[-1]
    status = fallline("results", "status", str(path))
    assert status.code == 0 and status.out == text
    data = json.loads(fallline("results", "status", str(path), "--json").out)
    assert set(data["statuses"]) == {"adamw", "twin"} and data["unfinished"] == 0
    assert fallline("results", "export", str(path), "--format", "csv", "--out", str(tmp_path / "tables")).code == 0
    with (tmp_path / "tables" / "r-trials.csv").open() as file:
        trials = list(csv.DictReader(file))
    assert len(trials) == 4 and {t["contestant"] for t in trials} == {"adamw", "twin"}
    assert len({t["seed"] for t in trials}) == 4, "the same contestant under two names has seeds of its own"
    with (tmp_path / "tables" / "r-evaluations.csv").open() as file:
        assert {row["step"] for row in csv.DictReader(file)} >= {"10"}
    with (tmp_path / "tables" / "r-runs.csv").open() as file:
        (run,) = csv.DictReader(file)
    assert json.loads(run["command"])[:2] == ["race", str(tmp_path / "tiny.py")] and "commit" in run["machine"]


def test_a_narrow_terminal_cuts_off_no_name_and_no_number(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, name = tmp_path / "r.sqlite", "a_name_of_some_length"
    files = [str(write_workload(tmp_path, name=task)) for task in ("tiny", "other")]
    entered = ["-o", f"adamw,{name}=adamw", "--trials", "1", "--studies", "2", "--clock", "steps", "-q"]
    for workloads, headings in ((files[:1], ("wall clock", "studies reached", "group")), (files, ("score by wall",))):
        assert fallline("race", *workloads, *entered, "--results", str(path), "-j", "1").code == 0
        monkeypatch.setenv("COLUMNS", "44")
        text = fallline("results", "status", str(path), "-q").out
        monkeypatch.delenv("COLUMNS")
        assert max(map(len, text.splitlines())) <= 44
        tables = [part.splitlines() for part in text.split("\n\n")[1:-1]]
        assert all(any(name in line for line in lines) for lines in tables), "each piece says whose numbers it has"
        words = text.split()
        assert all(word in words for heading in headings for word in heading.split())


def test_anew_runs_a_race_that_has_ended_once_more(fallline: Command, raced: tuple[Path, str], tmp_path: Path) -> None:
    path, _ = raced

    def last_end() -> float:
        database = sqlite3.connect(path)
        (found,) = database.execute("select max(ended) from trial").fetchone()
        database.close()
        return float(found)

    before = last_end()
    assert fallline("race", str(tmp_path / "tiny.py"), *QUICK, "-q", "--results", str(path)).code == 0
    assert last_end() == before, "without --anew nothing is run"
    assert fallline("race", str(tmp_path / "tiny.py"), *QUICK, "-q", "--anew", "--results", str(path)).code == 0
    assert last_end() > before


def test_anew_does_not_remove_a_race_on_something_else(
    fallline: Command, raced: tuple[Path, str], tmp_path: Path
) -> None:
    path, text = raced
    other = str(write_workload(tmp_path, name="other"))
    ended = fallline("race", other, *QUICK, "-q", "--anew", "--results", str(path))
    assert ended.code == 2 and "holds a race on tiny that has ended and --anew would remove" in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert fallline("results", "status", str(path)).out == text


def test_anew_without_the_engine_that_is_asked_for_keeps_what_there_is(
    fallline: Command, raced: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = raced
    monkeypatch.setitem(sys.modules, "ray", None)
    again = ("race", str(tmp_path / "tiny.py"), *QUICK, "--anew", "--results", str(path))
    ended = fallline(*again, "--engine", "ray")
    assert ended.code == 2 and "Ray is not installed" in ended.err
    assert fallline("results", "status", str(path)).out == text


def test_parquet_needs_pyarrow_and_says_so(fallline: Command, raced: tuple[Path, str], tmp_path: Path) -> None:
    try:
        import pyarrow.parquet
    except ImportError:
        ended = fallline("results", "export", str(raced[0]), "--format", "parquet", "--out", str(tmp_path))
        assert ended.code == 2 and "pip install 'fallline[parquet]'" in ended.err
    else:
        assert fallline("results", "export", str(raced[0]), "--format", "parquet", "--out", str(tmp_path)).code == 0
        table = pyarrow.parquet.read_table(tmp_path / "r-trials.parquet")
        assert table.num_rows == 4
        types = {name: str(table.schema.field(name).type) for name in ("study", "training_seconds", "note")}
        assert types == {"study": "int64", "training_seconds": "double", "note": "string"}, "though no note was taken"


def test_figures_that_cannot_be_drawn_are_told_before_the_race(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path, figures = tmp_path / "r.sqlite", str(tmp_path / "figures")
    ended = fallline("race", str(write_workload(tmp_path)), *QUICK, "--results", str(path), "--figures", figures)
    assert ended.code == 2 and "figures need matplotlib" in ended.err
    assert not path.exists()


def test_a_plan_counts_trials_hours_and_memory_and_runs_nothing(fallline: Command, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    ended = fallline("race", str(write_workload(tmp_path)), *QUICK, "--results", str(path), "--plan", "--json")
    data = json.loads(ended.out)
    assert data["trials"] == data["to_run"] == 4 and data["training_hours"] > 0 and data["memory_gib"] > 0
    assert data["evaluation_hours"] > 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_workload"], "no_such_workload"),
        (["/no/such/file.py"], "there is no such file"),
        (["FILE", "-o", "=adamw"], "before the sign = stands a label"),
        (["FILE", "-o", "adamx"], "did you mean"),
        (["FILE", "-o", "sophiag"], "labels sampled from the model"),
        (["FILE", "-o", "adamw", "-o", "adamw"], "entered twice"),
        (["FILE", "--ruleset", "mine"], "--ruleset must be one of"),
        (["FILE", "--ruleset", "self", "--trials", "5"], "self-tuning has one trial a study"),
        (["FILE", "--clock", "sun"], "--clock must be"),
        (["FILE", "--seconds", "60"], "--seconds 60: is for an equal-time race; give --ruleset budget too"),
        (["FILE", "--ruleset", "budget", "--seconds", "0"], "--seconds must be a number > 0"),
        (["FILE", "--ruleset", "budget", "--seconds", "inf"], "--seconds must be a number > 0"),
        (["FILE", "--ruleset", "budget", "--seconds", "9", "--max-steps", "9"], "are two budgets; give one of them"),
        (["chars", "--held-out"], "--held-out: chars has no held-out variant"),
        (["FILE", "--held-out"], "or race clicks, mri, images_resnet, speech_conformer, graphs, translation"),
        (["FILE", "--trials", "1000000", "--plan"], "15,000,000 trials, a race has at most 100,000"),
        (["FILE", "--studies", "1000000"], "a race has at most 100,000"),
        (["FILE", "--within", "-1"], "--within must be a share from 0 to less than 1, such as 5% or 0.05, got '-1'"),
        (["FILE", "--within", "5"], "got '5', perhaps 5%"),
        (["FILE", "--within", "nan"], "--within must be a share"),
        (["FILE", "--within", "a little"], "--within must be a share"),
        (["FILE", "--minutes", "0"], "--minutes must be a number > 0"),
        (["FILE", "--minutes", "nan"], "--minutes must be a number > 0"),
        (["FILE", "--until", "x"], "--until must be leader, got 'x'"),
        (["FILE", "--until", "leader", "--within", "1%"], "goes on whatever the loss; give one of them"),
        (["FILE", "--studies", "3", "--minutes", "5"], "--minutes 5.0: is for rounds, and --studies 3 fixes how many"),
        (["FILE", "--studies", "3", "--until", "leader"], "--until leader: is for rounds"),
        (["FILE", "--engine", "steam"], "--engine must be"),
        (["FILE", "--engine", "steam", "--plan"], "--engine must be"),
        (["FILE", "--address", "host:1"], "is for --engine ray"),
        (["FILE", "--figures", "FILE"], "this is a file; name a folder"),
        (["FILE", "--target", "nan"], "target must be a finite number"),
        (["FILE", "--max-steps", str(10**20)], "max_steps must be at most 1,000,000,000,000"),
        (["FILE", "--ruleset", "self", "--self-factor", "inf"], "--self-factor"),
        (["FILE", "FILE"], "two workloads are called"),
        (["FILE", "--results", "/no/such/folder/r.sqlite"], "there is no directory"),
        (["FILE", "--results", "r" * 300], "File name too long; give a shorter one"),
        (["FILE", "--out", "r" * 300], "File name too long; give a shorter one"),
        (["r" * 300 + ".py"], "File name too long; give a shorter one"),
        (["FILE", "--json", "--format", "csv"], "--json and --format csv exclude each other; choose one"),
        (["FILE", "--format", "pdf"], "--format pdf: must be one of text, json, csv, markdown, html"),
    ],
)
def test_bad_input_is_one_line(fallline: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    file = str(write_workload(tmp_path))
    results = [] if "--results" in arguments else ["--results", str(tmp_path / "r.sqlite")]
    ended = fallline("race", *(file if a == "FILE" else a for a in arguments), *results)
    assert ended.code == 2 and said in ended.err, ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert ended.out == ""


def test_a_plan_says_that_a_target_is_already_met_as_the_race_does(fallline: Command, tmp_path: Path) -> None:
    file = str(write_workload(tmp_path, target=1e9))
    planned = fallline("race", file, *QUICK, "--plan", "--results", str(tmp_path / "r.sqlite"))
    assert planned.code == 1 and planned.out == "" and "is already met before the first step" in planned.err
    assert fallline("race", file, *QUICK, "-q", "--results", str(tmp_path / "r.sqlite")).err == planned.err


def test_held_out_variants_are_raced_however_a_workload_is_spelt() -> None:
    names = [entry.name for entry in read_entries(["images-resnet", "Clicks"], None, None, held_out=True)]
    assert names == ["images_resnet", "clicks", "clicks_embed_init", "images_resnet_large_bn_init"]
    variant = ["mri", "mri_tanh"]
    assert [entry.name for entry in read_entries(variant, None, None, held_out=True)] == variant, "not twice"


def test_a_target_that_is_already_met_fails_the_race_in_one_line(fallline: Command, tmp_path: Path) -> None:
    file = write_workload(tmp_path, target=1e9)
    ended = fallline("race", str(file), *QUICK, "-q", "--results", str(tmp_path / "r.sqlite"))
    assert ended.code == 1 and "already met" in ended.err.strip()
    assert len(ended.err.strip().splitlines()) == 1
    status = fallline("results", "status", str(tmp_path / "r.sqlite"))
    assert status.code == 2 and "r.sqlite: nothing was raced: tiny: the target mse 1e+09 is already met" in status.err
    assert len(status.err.strip().splitlines()) == 1


ROUNDS = ["-o", "adamw", "-o", "sgd", "--ruleset", "self", "--self-factor", "1", "--clock", "steps", "-j", "1"]


def test_a_race_in_rounds_ends_with_a_choice_and_can_be_asked_for_less_and_more(
    fallline: Command, tmp_path: Path
) -> None:
    file, path = str(write_workload(tmp_path)), str(tmp_path / "r.sqlite")
    ended = fallline("race", file, *ROUNDS, "--within", "60%", "--results", path)
    assert ended.code == 0, ended.err
    assert "After 3 studies each:" in ended.err and "fixed settings, in rounds, seed 0" in ended.out
    said = " ".join(ended.out[ended.out.index("\nTake ") :].split())
    assert any(words in said for words in ("or at most", "Slower than it", "Without a target in any study: sgd"))
    data = json.loads(fallline("results", "status", path, "--json").out)
    assert data["ended_by"] in ("within", "one left") and said.startswith(data["verdict"])
    first = data["looks"][0]["look"]
    assert first["studies"] == 3 and {s["contestant"] for s in first["standings"]} == {"adamw", "sgd"}
    again = json.loads(fallline("race", file, *ROUNDS, "--within", "60%", "--results", path, "--json").out)
    assert again["looks"] == data["looks"]


def test_little_time_is_a_defined_end_and_no_margin_goes_on_until_one_is_left(
    fallline: Command, tmp_path: Path
) -> None:
    file, path = str(write_workload(tmp_path)), str(tmp_path / "r.sqlite")
    short = fallline("race", file, *ROUNDS, "--minutes", "0.000001", "--results", path, "-q")
    assert short.code == 0 and "Time was up before everybody had run three studies" in " ".join(short.out.split())
    exact = fallline("race", file, *ROUNDS, "--within", "0", "--minutes", "5", "--results", path, "--json")
    data = json.loads(exact.out)
    assert data["rules"]["within"] == 0.0
    last = data["looks"][-1]["look"]
    assert data["ended_by"] == "time" or last["bound"] == 0.0


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), (" 2.5 % ", 0.025), ("0", 0.0), ("0%", 0.0)])
def test_shares_are_read_as_people_write_them(text: str, share: float) -> None:
    assert read_share("--within", text) == pytest.approx(share)


def test_a_file_and_nothing_else_finds_rates_and_takes_one(fallline: Command, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    file = str(write_workload(tmp_path, max_steps=60))
    entered = ["-o", "adamw,lion", "--space", "lr=1e-3,1e-2", "--clock", "steps", "-j", "1", "--results", str(path)]
    ended = fallline("race", file, *entered, "--minutes", "5")
    assert ended.code == 0, ended.err
    assert "settings chosen from 5 each, in rounds" in ended.out and "Settings were chosen from 5 each" in ended.out
    assert "Chosen on tiny: adamw lr" in ended.err
    database = sqlite3.connect(path)
    (searched,) = database.execute("select count(*) from trial where kind = 'search'").fetchone()
    database.close()
    assert searched == 4, "all of a list"


@pytest.mark.parametrize(
    ("arguments", "search", "trials"),
    [
        ([], 0, 1),
        (["chars"], 0, 1),
        (["digits"], 5, 1),
        (["digits", "--search", "0"], 0, 1),
        (["digits", "--search", "9"], 9, 1),
        (["digits", "--trials", "4"], 0, 4),
        (["digits", "chars"], 0, 5),
    ],
)
def test_one_workload_is_searched_unless_tuning_is_asked_for(arguments: list[str], search: int, trials: int) -> None:
    options = dict(itertools.pairwise(arguments))
    workloads = [name for name in arguments if name in ("chars", "digits")]
    found = {name[2:]: int(value) for name, value in options.items() if name.startswith("--")}
    rules = read_rules(Design(**found), workloads or None, several=len(workloads) > 1)
    assert (rules.search, rules.trials) == (search, trials) and rules.in_rounds
    assert (rules.minutes_after_a_look is not None) == bool(search)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--space", "lr"], "is no range; write lr=1e-4:1e-1"),
        (["--space", "sgd.lr=1:2"], "sgd is not in the race; there are adamw"),
        (["--space", "adamw.nosuch=1:2"], "no setting 'nosuch'"),
        (["--space", "lr=1:2", "--search", "0"], "nothing is tuned in this race"),
        (["--search", "4", "--trials", "2"], "not with --trials 2"),
    ],
)
def test_bad_searches_are_one_line(fallline: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = fallline("race", str(write_workload(tmp_path)), "-o", "adamw", *arguments)
    assert ended.code == 2 and said in ended.err and len(ended.err.strip().splitlines()) == 1, ended.err
