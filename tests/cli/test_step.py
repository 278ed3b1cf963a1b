"""``fallline step`` measures, shows what it measured, and refuses what cannot work before it starts."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

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
    csv = fallline("step", *QUICK, "--impl", "eager,fused", "--out", out, "--csv", "--show").out.splitlines()
    assert len(csv) == 1 + 2 * 2 and csv[0].startswith("table,label")
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


def test_model_from_a_users_file(fallline: Command, out: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import torch\ndef net():\n    return torch.nn.Linear(30, 20)\ndef bad():\n    return 1 / 0\n")
    command = ("step", "--impl", "eager,fused", "--threads", "1", "--steps", "3", "--no-flush", "--out", out)
    ended = fallline(*command, "--model", f"{path}:net")
    assert ended.code == 0 and "mine.py:net" in ended.out
    ended = fallline(*command, "--model", f"{path}:bad")
    assert ended.code == 2
    assert ended.err.splitlines()[0].endswith("raised ZeroDivisionError")
    assert "Traceback" in ended.err and "1 / 0" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sizes", "0"), "--sizes 0: must be whole numbers ≥ 1"),
        (("--sizes", "a"), "--sizes a: must be whole numbers"),
        (("--tensors", "4,4"), "twice, which would change nothing"),
        (("--impl", "magic"), "no implementation 'magic'"),
        (("--impl", "fused,fused"), "fused is named twice"),
        (("--optimizer", "adamm"), "there is no optimizer 'adamm'; did you mean"),
        (("--dtype", "int8"), "--dtype int8: must be one of"),
        (("--state-dtype", "int2"), "--state-dtype int2: must be one of"),
        (("--optimizer", "sgd", "--amsgrad"), "sgd has no option 'amsgrad'"),
        (("--option", "lr"), "must be NAME=VALUE"),
        (("--preset", "grid"), "--preset grid: must be one of adam-grid, adan-gpt2"),
        (("--preset", "adam-grid", "--sizes", "5"), "--sizes: fixed by --preset adam-grid"),
        (("--model", "bert"), "--model bert: not known"),
        (("--against", "/no/such/table.md"), "cannot be read"),
        (("--figure", "map.gif"), "must end in .png or .svg"),
        (("--tensors", "100000", "--sizes", "100000000"), "GB are available"),
        (("--json", "--csv"), "exclude each other"),
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


def test_other_machines_results_are_not_mixed_in(fallline: Command, out: str) -> None:
    fallline("step", *QUICK, "--impl", "eager,fused", "--out", out)
    with sqlite3.connect(out) as database:
        (found,) = database.execute("select machine from run").fetchone()
        database.execute("update run set machine = ?", (json.dumps({**json.loads(found), "cores": 100}),))
    ended = fallline("step", *QUICK, "--impl", "eager,fused-loop", "--out", out)
    assert ended.code == 2 and "with cores 100" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--optimizer", "qhm", "--option", "nu=1"), "plain momentum"),
        (("--optimizer", "sophiag"), "without update_hessian()"),
    ],
)
def test_degenerate_settings_are_named(fallline: Command, out: str, arguments: tuple[str, ...], said: str) -> None:
    common = ("--tensors", "1", "--sizes", "50", "--impl", "eager,foreach", "--threads", "1", "--steps", "2")
    ended = fallline("step", *arguments, *common, "--no-flush", "--out", out)
    assert ended.code == 0, ended.err
    assert said in ended.out


def test_implementations_are_listed(fallline: Command) -> None:
    assert "fused-loop" in fallline("step", "--list").out
