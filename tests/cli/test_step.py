"""``fallline step`` measures, shows what it measured, and refuses what cannot work before it starts."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fallline.cli.step.progress import Progress, seconds_left
from fallline.measure import machine
from fallline.step.gpt2 import Gpt2
from fallline.step.plan import arms_of, grid
from fallline.step.published import adan_tables, claims, memory, memory_table, presets
from fallline.step.results import CellRecord, Results
from tests.cli import Command

QUICK = ("--optimizer", "adam", "--tensors", "1,2", "--sizes", "100", "--threads", "1", "--steps", "8", "--no-flush")


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "r.sqlite")


def test_measures_then_shows_from_the_file(fallline: Command, out: str) -> None:
    ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    assert ended.code == 0, ended.err
    assert "ms per step" in ended.out and "GB/s (fraction of the limit)" in ended.out
    assert "[2/2]" in ended.err
    last = ended.out.strip().splitlines()[-1]
    assert last.startswith("eager wins") and "(data " in last
    again = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    assert "2 of 2 cells are in" in again.err and "[1/" not in again.err
    assert again.out == ended.out
    shown = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--show")
    assert (shown.out, shown.err) == (ended.out, "")


def test_json_is_alone_on_stdout(fallline: Command, out: str) -> None:
    ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--json", "--quiet")
    assert ended.err == ""
    found = json.loads(ended.out)
    row = found["tables"][0]["rows"][0]
    assert row["arms"]["fused"]["samples"] == 8 and row["arms"]["fused"]["fraction_of_limit"] > 0
    (machine,) = found["machines"]
    assert machine["pinning"]["processors"] and machine["caches"] is not None
    with sqlite3.connect(out) as database:
        assert database.execute("select count(*) from cell where key = ?", (row["record"]["key"],)).fetchone() == (1,)
    lines = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--csv", "--show").out.splitlines()
    assert len(lines) == 1 + 2 * 2 and lines[0].startswith("table,label")
    markdown = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--md", "--show").out
    assert markdown.startswith("#### adam") and "| Parameters | Parameter Size |" in markdown


def test_missing_package_is_a_row_and_the_rest_runs(
    fallline: Command, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    ended = fallline("step", *QUICK, "--impl", "eager,fused,bitsandbytes", "--out", out)
    assert ended.code == 0
    assert "bitsandbytes: not installed" in ended.out
    assert "fused" in ended.out


def test_column_that_is_called_fused_is_fused(fallline: Command, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_NATIVE", "0")
    ended = fallline("step", *QUICK, "--impl", "foreach,fused", "--out", out)
    assert ended.code == 0, ended.err
    assert "fused: no native kernels: switched off by FALLLINE_NATIVE=0" in ended.out
    assert "foreach alone was timed" in ended.out.splitlines()[-1]


@pytest.mark.parametrize("full", ["memory", "machine"])
def test_samples_are_kept_until_they_can_be_measured_again(
    fallline: Command, out: str, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    command = ("step", *QUICK, "--impl", "eager,fused", "--out", out)
    before = fallline(*command).out
    with monkeypatch.context() as changed:
        if full == "memory":
            changed.setattr(machine, "available_memory", lambda: 1)
        else:
            changed.setattr(machine, "cpu_model", lambda: "another one")
        ended = fallline(*command, "--fresh")
    assert ended.code == 2 and ("GB are available" if full == "memory" else "another one") in ended.err
    assert fallline(*command, "--show").out == before
    again = fallline(*command, "--fresh")
    assert again.code == 0 and "[2/2]" in again.err and again.out != before


def test_full_disk_is_told_in_one_line(out: str, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "map.svg"
    picture.symlink_to("/dev/full")
    command = [sys.executable, "-m", "fallline", "step", *QUICK, "--impl", "eager,fused", "--out", out, "--quiet"]
    for more, said in (
        ((), "the output could not be written"),
        (("--json",), "the output"),
        (("--figure", str(picture)), "--figure"),
    ):
        with open("/dev/full", "w") as full:
            ended = subprocess.run([*command, *more], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        (line,) = ended.stderr.splitlines()
        assert ended.returncode == 2 and line.startswith(f"fallline: {said}")
        assert "No space left on device" in line and f"the samples are in {out}" in line


def test_lists_are_values_of_options_too(fallline: Command, out: str) -> None:
    ended = fallline("step", *QUICK, "--impl", "eager,foreach", "--option", "betas=[0.9,0.99]", "--out", out)
    assert ended.code == 0 and "betas=(0.9, 0.99)" in ended.out


def test_model_from_a_users_file(fallline: Command, out: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\ndef net():\n    return torch.nn.Linear(30, 20)\ndef bad():\n    return 1 / 0\n"
        "def empty():\n    return torch.nn.ReLU()\ndef word():\n    return 'word'\n"
    )
    command = ("step", "--impl", "eager,fused", "--threads", "1", "--steps", "3", "--no-flush", "--out", out)
    ended = fallline(*command, "--model", f"{path}:net")
    assert ended.code == 0 and "mine.py:net" in ended.out
    ended = fallline(*command, "--model", f"{path}:bad")
    assert ended.code == 2
    assert ended.err.splitlines()[0].endswith("raised ZeroDivisionError")
    assert "Traceback" in ended.err and "1 / 0" in ended.err
    assert "runpy" not in ended.err  # the user's own traceback, from the user's file on
    for name, said in (
        ("empty", "got ReLU without parameters that train"),
        ("word", "got str"),
        ("none", "no function"),
    ):
        ended = fallline(*command, "--model", f"{path}:{name}")
        assert ended.code == 2 and said in ended.err and len(ended.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sizes", "0"), "--sizes 0: must be whole numbers ≥ 1"),
        (("--sizes=-5",), "--sizes -5: must be whole numbers ≥ 1"),
        (("--sizes", "a"), "--sizes a: must be whole numbers"),
        (("--sizes", "1.5"), "--sizes 1.5: must be whole numbers"),
        (("--tensors", ","), "--tensors ,: must be whole numbers ≥ 1"),
        (("--tensors", "1000000000"), "--tensors 1000000000: must be at most 100,000"),
        (("--threads", "0"), "--threads 0: must be whole numbers ≥ 1"),
        (("--steps", "0"), "Invalid value for '--steps'"),
        (("--tensors", "4,4"), "twice, which would change nothing"),
        (("--impl", "magic"), "no implementation 'magic'"),
        (("--impl", "fused,fused"), "fused is named twice"),
        (("--optimizer", "adamm"), "there is no optimizer 'adamm'; did you mean"),
        (("--dtype", "int8"), "--dtype int8: must be one of"),
        (("--state-dtype", "int2"), "--state-dtype int2: must be one of"),
        (("--optimizer", "sgd", "--amsgrad"), "sgd has no option 'amsgrad'"),
        (("--option", "lr"), "must be NAME=VALUE"),
        (("--option", "lr=fast"), "--option: lr must be a number >= 0, got 'fast'"),
        (("--option", "lr=-1"), "--option: lr must be >= 0, got -1"),
        (("--option", "betas=(0.9,)"), "--option: betas must be 2 numbers"),
        (("--option", "amsgrad=maybe"), "--option: amsgrad must be False or True"),
        (("--option", "betas={0.9,0.99}"), "--option: betas must be 2 numbers"),
        (("--option", f"lr={'-' * 100_000}1"), "--option lr: the value is nested too deeply"),
        (("--threads", "99999"), "--threads 99999: must be at most 4,096"),
        (("--seed", "99999999999999999999"), "Invalid value for '--seed'"),
        (("--memory-seconds", "nan"), "Invalid value for '--memory-seconds'"),
        (("--preset", "grid"), "--preset grid: must be one of adam-grid, adan-gpt2"),
        (("--preset", "adam-grid", "--sizes", "5"), "--sizes: fixed by --preset adam-grid"),
        (("--preset", "adan-gpt2", "--impl", "fused"), "--impl: fixed by --preset adan-gpt2"),
        (("--preset", "adan-gpt2", "--state-dtype", "int8"), "--state-dtype: fixed by --preset adan-gpt2"),
        (("--preset", "adan-gpt2", "--up-to", "0"), "--up-to 0: must be a number > 0"),
        (("--preset", "adan-gpt2", "--up-to", "nan"), "--up-to nan: must be a number > 0"),
        (("--up-to", "100"), "--up-to: belongs to --preset adan-gpt2"),
        (("--model", "bert"), "--model bert: not known"),
        (("--model", "gpt2-small", "--sizes", "5"), "the shapes are those of --model"),
        (("--against", "/no/such/table.md"), "cannot be read"),
        (("--against", "adan-gpt2"), "compares with --preset adan-gpt2 only"),
        (("--against", "adam-grid", "--sizes", "5"), "has none of the numbers and sizes of tensors"),
        (("--figure", "map.gif"), "--figure map.gif: must end in .png or .svg"),
        (("--figure", "/no/such/folder/map.png"), "--figure /no/such/folder/map.png: there is no directory"),
        (("--figure", "map.png", "--model", "gpt2-small"), "there is no grid to draw"),
        (("--tensors", "100000", "--sizes", "100000000"), "GB are available"),
        (("--json", "--csv"), "exclude each other"),
        (("--against", "adam-grid", "--csv"), "--against: has no place among the lines of --csv"),
    ],
)
def test_bad_input_is_refused_in_one_line(fallline: Command, out: str, arguments: tuple[str, ...], said: str) -> None:
    ended = fallline("step", *arguments, "--out", out)
    assert ended.code == 2
    assert said in ended.err and len(ended.err.strip().splitlines()) == 1


def test_newer_file_is_refused(fallline: Command, out: str) -> None:
    fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    with sqlite3.connect(out) as database:
        database.execute("pragma user_version = 99")
    ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    assert ended.code == 2 and "newer fallline (format 99" in ended.err


def test_files_that_are_no_results_are_refused(fallline: Command, tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("hello, hello")
    with sqlite3.connect(other) as database:
        database.execute("create table mine (x)")
    for path, said in (
        (text, "not a results file"),
        (other, "a database, but not one of step results"),
        (tmp_path, "this is a directory"),
        ("", "this is a directory"),
        (tmp_path / "no" / "r.sqlite", "there is no directory"),
    ):
        ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", str(path))
        assert ended.code == 2 and said in ended.err and len(ended.err.strip().splitlines()) == 1
    assert text.read_text() == "hello, hello"
    ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", str(tmp_path / "none.sqlite"), "--show")
    assert ended.code == 2 and "no such results file" in ended.err


def test_second_process_on_one_file_is_told(fallline: Command, out: str) -> None:
    with Results(Path(out)):
        ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    assert ended.code == 2 and "another process is writing it" in ended.err


def test_interrupted_run_says_so_in_one_line_and_goes_on(out: str) -> None:
    command = [sys.executable, "-m", "fallline", "step", "--impl", "eager,fused", "--tensors", "1,2,3", "--sizes"]
    command += ["100,200,400", "--no-flush", "--threads", "1", "--steps", "3", "--out", out]
    # Jobs in the background of a shell ignore Ctrl-C, and hand that down.
    heeding = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding)
    assert running.stderr is not None and running.stdout is not None
    for line in running.stderr:
        if line.startswith("[2/9]"):
            running.send_signal(signal.SIGINT)
            break
    rest = running.stderr.read().splitlines()
    assert running.wait() == 130 and running.stdout.read() == ""
    assert rest[-1].startswith("fallline: interrupted") and all(line.startswith("[") for line in rest[:-1])
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.match(r"[2-8] of 9 cells are in", ended.stderr)


def test_steps_and_pinning_are_not_answered_with_older_samples(fallline: Command, out: str) -> None:
    command = ("step", *QUICK[:-3], "--no-flush", "--impl", "eager,fused", "--out", out)
    for more in (("--steps", "4"), ("--steps", "5"), ("--steps", "5", "--pin")):
        ended = fallline(*command, *more, "--json")
        assert "[2/2]" in ended.err
        (table,) = json.loads(ended.out)["tables"]
        assert f"{more[1]} steps of each" in table["title"] and ("pinned" in table["title"]) == ("--pin" in more)
        assert all(row["arms"]["fused"]["samples"] == int(more[1]) for row in table["rows"])


def test_a_table_per_number_of_threads(fallline: Command, out: str) -> None:
    ended = fallline("step", *QUICK, "--threads", "2,1", "--impl", "eager,fused", "--out", out, "--pin")
    assert ended.code == 0, ended.err
    assert [" 1 thread, pinned" in ended.out, " 2 threads, pinned" in ended.out] == [True, True]
    assert ", 2 threads:" in ended.err


def test_flush_for_all_and_other_formats(fallline: Command, out: str) -> None:
    command = ("step", *QUICK[:-1], "--flush", "--impl", "eager,fused,torch-fused", "--out", out, "--csv")
    ended = fallline(*command, "--dtype", "bfloat16", "--state-dtype", "int8")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert {(row["flush"], row["dtype"]) for row in rows} == {("True", "bfloat16")}
    assert all(float(row["ms"]) > 0 for row in rows) and {row["missing"] for row in rows} == {""}


def test_another_table_beside_ours(fallline: Command, out: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("tensors,size,eager,fused\n1,100,0.5,0.6\n8,100,0.5,0.4\n")
    ended = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--against", str(theirs))
    assert re.search(r"winners, published and here: the same in [01] of 1 cells", ended.out)
    found = fallline(
        "step", *QUICK, "--impl", "eager,fused", "--out", out, "--against", str(theirs), "--json", "--show"
    )
    (beside,) = json.loads(found.out)["against"]
    assert beside["title"] in ended.out and beside["rows"][0][:3] == ["1", "100", "eager"]


@pytest.fixture
def tiny_gpt2(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset with models of a few thousand parameters in place of the published ones."""
    configs = (Gpt2(2, 1, 16, 50, 8), Gpt2(4, 1, 16, 50, 8), Gpt2(2, 2, 16, 50, 8), Gpt2(2, 2, 32, 50, 8))
    for module in (presets, adan_tables, claims, memory_table):
        monkeypatch.setattr(module, "CONFIGURATIONS", configs)


def test_preset_from_measuring_to_the_page(fallline: Command, out: str, tiny_gpt2: None) -> None:
    """All of adan-gpt2, with 200 steps and every configuration, on models that take no time."""
    command = ("step", "--preset", "adan-gpt2", "--out", out, "--threads", "1")
    ended = fallline(*command, "--up-to", "2000", "--steps", "200", "--memory-seconds", "0.5")
    assert ended.code == 0, ended.err
    assert "[3/3]" in ended.err and "memory of gpt2-2x1x16 with Adam" in ended.err
    page = fallline(*command, "--up-to", "2000", "--steps", "200", "--show", "--md").out
    assert page.count("| 2 | 2 | 32 |") == 2  # once in the table of times, once in that of memory
    assert "| 200 steps Adam, s | 200 steps fused multi, s |" in page
    assert "memory was measured in 1 cases" in page
    last = page.strip().splitlines()[-1]
    assert last.startswith("- A step of Adan takes") and "MiB more per million parameters. (data " in last
    assert "with adan take" in page and "with adam take" in page


def test_larger_configurations_are_modelled(fallline: Command, out: str, tiny_gpt2: None) -> None:
    command = ("step", "--preset", "adan-gpt2", "--out", out, "--threads", "1", "--steps", "3", "--memory-seconds", "0")
    ended = fallline(*command, "--up-to", "0.006")
    assert ended.code == 0, ended.err
    assert "[1/1]" in ended.err
    times = ended.out.split("peak memory")[0]
    assert re.search(r"^ +2 +2 +32 +0 +~", times, flags=re.MULTILINE)
    assert not re.search(r"^ +2 +1 +16 +0 +~", times, flags=re.MULTILINE)


def test_a_memory_measurement_that_dies_is_a_note(
    fallline: Command, out: str, tiny_gpt2: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise memory.Failed("the process ended with -9")

    monkeypatch.setattr(memory_table, "measured", dies)
    command = ("step", "--preset", "adan-gpt2", "--out", out, "--threads", "1", "--steps", "3")
    ended = fallline(*command, "--memory-seconds", "0.5")
    assert ended.code == 0, ended.err
    assert "gpt2-2x1x16 with Adam could not be measured: the process ended with -9" in ended.out


def test_memory_that_could_not_be_measured_is_tried_again(
    fallline: Command, out: str, tiny_gpt2: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise memory.Failed("the process ended with -9")

    command = ("step", "--preset", "adan-gpt2", "--out", out, "--threads", "1", "--steps", "3")
    with monkeypatch.context() as changed:
        changed.setattr(memory_table, "measured", dies)
        assert "could not be measured" in fallline(*command, "--memory-seconds", "60").out
    monkeypatch.setattr(memory_table, "measured", lambda *_: memory.Peaks(1, 2, 3, 4))
    ended = fallline(*command, "--memory-seconds", "60")
    assert "could not be measured" not in ended.out and "memory was measured in 8 cases" in ended.out


def test_fresh_takes_memory_again(fallline: Command, out: str, tiny_gpt2: None) -> None:
    command = ("step", "--preset", "adan-gpt2", "--out", out, "--threads", "1", "--steps", "3", "--memory-seconds", "0")
    found = json.loads(fallline(*command, "--json").out)["memory"]
    with sqlite3.connect(out) as database:
        database.execute("update memory set facts = ?", (json.dumps(dict.fromkeys(next(iter(found.values())), 1)),))
    assert json.loads(fallline(*command, "--json").out)["memory"] != found
    assert json.loads(fallline(*command, "--json", "--fresh").out)["memory"] == found


def test_progress_bar_shows_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    cells = grid([1, 2], [100], arms_of("adam", ["fused"], {}, "float32"))
    with Progress(cells, quiet=False) as progress:
        for cell in cells:
            progress.tell(cell, None)
            progress.tell(cell, CellRecord(cell, {}, {"rounds": 1, "stopped": "decided"}))
    said = terminal.getvalue()
    assert "1 × 100" in said and "2 × 100; about 0 s left" in said and "2/2" in said


def test_long_cells_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    cells = grid([1, 2, 4], [100], arms_of("adam", ["fused"], {}, "float32"))
    with Progress(cells, quiet=False) as progress:
        progress.tell(cells[0], None)
        for done in (1, 2, 3):
            now[0] += 50.0
            progress.tell_round(cells[0], done, 10)
        now[0] += 350.0
        progress.tell(cells[0], CellRecord(cells[0], {}, {"rounds": 10, "stopped": "decided"}))
    lines = capsys.readouterr().err.splitlines()
    # 50 s a round: 400 s of this cell after the second round, and two cells of 500 s.
    assert lines == [
        "[0/3] 1 × 100: round 2 of 10; about 23 min left",
        "[1/3] 1 × 100: 10 rounds, decided; about 17 min left",
    ]


def test_time_left_grows_with_elements() -> None:
    small, large = grid([1, 9], [100], arms_of("adam", ["fused"], {}, "float32"))
    assert seconds_left([], [small]) is None
    assert seconds_left([(small, 10.0), (large, 90.0)], [small]) == pytest.approx(10 + 80 / 1000 * 100)
    assert seconds_left([], [small, large], (small, 5.0, 0.25)) == pytest.approx(15 + 20)


def test_other_machines_results_are_not_mixed_in(fallline: Command, out: str) -> None:
    fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    with sqlite3.connect(out) as database:
        (found,) = database.execute("select machine from run").fetchone()
        database.execute("update run set machine = ?", (json.dumps({**json.loads(found), "cores": 100}),))
    ended = fallline("step", *QUICK, "--impl", "eager,fused-loop", "--out", out)
    assert ended.code == 2 and "with cores 100" in ended.err
    with sqlite3.connect(out) as database:  # what is installed beside is recorded, and no reason to begin anew
        changed = {**json.loads(found), "packages": {"torchao": "0.0"}}
        database.execute("update run set machine = ?", (json.dumps(changed),))
    assert fallline("step", *QUICK, "--impl", "eager,fused-loop", "--out", out).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--optimizer", "qhm", "--option", "nu=1"), "plain momentum"),
        (("--optimizer", "QHM", "--option", "nu=0"), "plain SGD"),
        (("--optimizer", "sophiag"), "without update_hessian()"),
        (("--threads", "200"), "200 threads on"),
    ],
)
def test_degenerate_settings_are_named(fallline: Command, out: str, arguments: tuple[str, ...], said: str) -> None:
    common = ("--threads", "1", "--tensors", "1", "--sizes", "50", "--impl", "eager,foreach", "--steps", "2")
    ended = fallline("step", *common, *arguments, "--no-flush", "--out", out)
    assert ended.code == 0, ended.err
    assert said in ended.out


def test_implementations_are_listed(fallline: Command) -> None:
    assert "fused-loop" in fallline("step", "--list").out
    assert "fused-loop" in {one["name"] for one in json.loads(fallline("step", "--list", "--json").out)}


def test_a_file_is_shown_without_the_options_it_was_measured_with(fallline: Command, out: str, tmp_path: Path) -> None:
    """Not even the user's model is loaded again."""
    model = tmp_path / "mine.py"
    model.write_text("import torch\ndef net():\n    return torch.nn.Linear(30, 20)\n")
    command = ("step", "--impl", "eager,fused", "--threads", "1", "--steps", "3", "--no-flush", "--out", out)
    for more in (("--tensors", "1,2", "--sizes", "100"), ("--model", f"{model}:net")):
        measured = fallline(*command, *more)
        assert measured.code == 0, measured.err
        model.write_text("raise SystemExit('it ran')\n")
        shown = fallline("step", "--show", "--out", out)
        assert (shown.code, shown.out) == (0, measured.out), shown.err
        model.write_text("import torch\ndef net():\n    return torch.nn.Linear(30, 20)\n")
    assert json.loads(fallline("step", "--show", "--json", "--out", out).out)["tables"][0]["rows"][0]["tensors"] == 2


def test_time_left_is_not_guessed_from_a_few_small_cells() -> None:
    small, large = grid([1, 99], [100], arms_of("adam", ["fused"], {}, "float32"))
    assert seconds_left([(small, 0.1)], [large]) is None, "a hundredth of the elements says nothing about the rest"
    assert seconds_left([(large, 9.9)], [small]) is not None
