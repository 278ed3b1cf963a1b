"""``fallline profile`` measures, goes on after a kill, makes rows of what fails, and refuses what cannot work."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fallline.cli.profile.options import Questions, Trained
from fallline.cli.profile.races import command_of
from tests.cli import Command

SMALL = ("gpt-tiny@layers=1,width=32,heads=2,batch=2,sequence=16", "--threads", "1", "--repeats", "2")
SHORT = (*SMALL, "--steps", "6")

OPTIMIZERS = """
import torch

class Raises(torch.optim.SGD):
    calls = 0
    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr=lr)
    def step(self, closure=None):
        Raises.calls += 1
        if Raises.calls > 6:
            raise ValueError("not today")

class Diverges(torch.optim.SGD):
    def __init__(self, params, lr=1e30):
        super().__init__(params, lr=lr)

class Greedy(torch.optim.SGD):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr=lr)
    def step(self, closure=None):
        torch.ones(10**13)
"""
WORKLOAD = """
import torch
import fallline

def workload():
    return fallline.Workload(
        name="plain", model=lambda seed: torch.nn.Linear(4, 1), batch=lambda step, seed: torch.ones(8, 4),
        loss=lambda model, x: model(x).square().mean(), evaluate=lambda model: 1.0, metric="m", max_steps=50)
"""


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "p.sqlite")


def result(ended: Any) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_measures_shows_and_goes_on(fallline: Command, out: str, tmp_path: Path) -> None:
    ended = fallline("profile", *SHORT, "-o", "adamw,adamw8bit,sophiag", "--out", out)
    assert ended.code == 0, ended.err
    assert "adamw: about" in ended.err and "MB in tensors at its peak" in ended.err
    head = next(line for line in ended.out.splitlines() if line.lstrip().startswith("tokens/s"))
    assert " ".join(head.split()) == "tokens/s Δ vs adamw ms/step fwd bwd step data peak MB states MB loss"
    last = ended.out.strip().splitlines()[-1]
    assert last.startswith("sophiag ") and "adamw" in last and "(data " in last
    assert "Hessian update" in ended.out and "labels drawn from the model" in ended.out
    again = fallline("profile", *SHORT, "-o", "adamw,adamw8bit,sophiag", "--out", out)
    assert again.out == ended.out and "about" not in again.err
    assert fallline("profile", *SHORT, "-o", "adamw,adamw8bit,sophiag", "--out", out, "--show").out == ended.out


def test_every_number_comes_from_stored_steps(fallline: Command, out: str) -> None:
    found = result(fallline("profile", *SHORT, "-o", "adamw,lion8bit", "--out", out, "--json"))
    (cell,) = found["cells"]
    with sqlite3.connect(out) as database:
        (steps,) = database.execute("select count(*) from step where timed and arm = 'lion8bit'").fetchone()
    arm = cell["arms"]["lion8bit"]
    assert steps == arm["steps"] == 2 * 6
    assert arm["rate"] == pytest.approx(cell["per_step"]["positions"] / arm["seconds_per_step"])
    base = cell["arms"]["adamw"]["seconds_per_step"]
    assert base / arm["seconds_per_step"] - 1 == pytest.approx(arm["delta"]["value"])
    facts = [cell["arms"][name]["facts"] for name in ("adamw", "lion8bit")]
    for one in facts:
        assert one["state_bytes"] == one["modelled_state_bytes"]
        assert one["peak_bytes"] == one["predicted_peak"]
    peaks, states = ([one[name] for one in facts] for name in ("peak_bytes", "state_bytes"))
    assert peaks[0] - peaks[1] == states[0] - states[1] > 0


def test_arms_that_fail_are_rows(fallline: Command, out: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OPTIMIZERS)
    own = [f"{tmp_path}/mine.py:{name}" for name in ("Raises", "Diverges", "Greedy")]
    arms = ("-o", ",".join(["adamw", *own, "adamw8bit"]))
    found = result(fallline("profile", *SHORT, *arms, "--out", out, "--json"))
    status = {name: arm["status"] for name, arm in found["cells"][0]["arms"].items()}
    assert status["adamw"] is None and status["adamw8bit"] is None
    assert status["raises"].startswith("raised at step ") and status["raises"].endswith("ValueError: not today")
    assert status["diverges"].startswith("diverged at step ")
    assert status["greedy"] == "out of memory"
    assert found["cells"][0]["arms"]["adamw8bit"]["steps"] == 12
    text = fallline("profile", *SHORT, *arms, "--out", out, "--show").out
    assert "ValueError: not today" in text and "out of memory" in text


def test_a_sweep_has_a_row_for_each_size(fallline: Command, out: str, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    asked = (*SHORT, "-o", "adamw,adamw8bit", "--sweep", "batch=1,2", "--memory-budget", "2MB", "--out", out)
    ended = fallline("profile", *asked, "--figures", str(figures))
    assert ended.code == 0, ended.err
    assert "adamw8bit is faster than adamw at" in ended.out.strip().splitlines()[-1]
    assert "No throughput cliff" in ended.out or "falls off a cliff" in ended.out
    assert {path.stem for path in figures.glob("*.png")} >= {"loss-tokens-batch-1", "loss-seconds-batch-2"}
    found = result(fallline("profile", *asked, "--show", "--json"))
    assert [cell["label"] for cell in found["cells"]] == ["batch 1", "batch 2"]
    assert "by the model" in ended.out and "in a run)" in ended.out


def test_a_state_dtype_can_be_swept(fallline: Command, out: str) -> None:
    asked = (*SHORT, "-o", "adamw,few=adamw", "--sweep", "state_dtype=int8,int4", "--out", out, "--json")
    states = [cell["arms"]["few"]["facts"]["state_bytes"] for cell in result(fallline("profile", *asked))["cells"]]
    assert states[0] > states[1]


def test_a_workload_without_tokens_counts_samples(fallline: Command, out: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(WORKLOAD)
    arms = ("-o", "adamw,lion", "--steps", "4", "--repeats", "2", "--threads", "1")
    found = result(fallline("profile", f"{tmp_path}/plain.py", *arms, "--out", out, "--json"))
    (cell,) = found["cells"]
    assert cell["unit"] == "samples/s" and cell["per_step"] == {"tokens": None, "positions": None, "samples": 8}


def test_padding_is_counted_apart(fallline: Command, out: str) -> None:
    asked = (*SMALL, "--steps", "4", "--padding", "max_length", "--sequence", "512", "-o", "adamw,lion", "--out", out)
    per_step = result(fallline("profile", *asked, "--json"))["cells"][0]["per_step"]
    assert 0 < per_step["tokens"] < per_step["positions"] == 2 * 512


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_sixteen_bits(fallline: Command, out: str, precision: str) -> None:
    asked = (*SMALL, "--steps", "4", "-o", "adamw,adamw8bit", "--precision", precision, "--out", out, "--json")
    arms = result(fallline("profile", *asked))["cells"][0]["arms"]
    skipped = sum(v for name, v in arms["adamw"]["facts"].items() if name.startswith("skipped."))
    # A scaler begins too high on purpose; bfloat16 has none.
    assert (skipped > 0) == (precision == "fp16")


def test_a_killed_profile_goes_on_where_it_was(fallline: Command, out: str) -> None:
    asked = (*SMALL, "--steps", "30", "-o", "adamw,adamw8bit", "--out", out, "--json")
    process = subprocess.Popen([sys.executable, "-m", "fallline", "profile", *asked], stdout=subprocess.DEVNULL)
    try:
        before = _wait_for_blocks(out, 2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    arms = result(fallline("profile", *asked))["cells"][0]["arms"]
    assert arms["adamw"]["steps"] == 60
    after = _steps(out)
    assert before.items() <= after.items()
    whole = result(fallline("profile", *asked[:-3], "--out", f"{out}.whole", "--json"))["cells"][0]["arms"]
    # The same losses as if it had not been killed.
    assert arms["adamw8bit"]["values"] == whole["adamw8bit"]["values"]


def _wait_for_blocks(out: str, wanted: int) -> dict[Any, Any]:
    for _ in range(600):
        time.sleep(0.1)
        try:
            with sqlite3.connect(out) as database:
                (count,) = database.execute("select count(*) from block").fetchone()
        except sqlite3.Error:
            continue
        if count >= wanted:
            return _steps(out)
    raise AssertionError("no block was stored")


def _steps(out: str) -> dict[Any, Any]:
    with sqlite3.connect(out) as database:
        rows = database.execute("select repeat, arm, step, loss, seconds from step").fetchall()
    return {row[:3]: row[3:] for row in rows}


def test_a_damaged_checkpoint_costs_time_and_nothing_else(fallline: Command, out: str) -> None:
    asked = (*SMALL, "--steps", "20", "-o", "adamw,lion", "--out", out, "--json")
    whole = result(fallline("profile", *asked))["cells"][0]["arms"]["lion"]["values"]
    with sqlite3.connect(out) as database:
        database.execute("delete from block where repeat = 1 and block = 1")
    folder = Path(out + ".states")
    folder.mkdir()
    (folder / "damaged.pt").write_bytes(b"not a checkpoint")
    ended = fallline("profile", *asked[:-1], "--format", "json")
    again = json.loads(ended.out)["cells"][0]["arms"]["lion"]["values"]
    assert again == whole


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data", "EMPTY"), "an empty file"),
        (("--data", "BINARY"), "a binary file"),
        (("--data", "MISSING"), "cannot be read"),
        (("-o", "adamv"), "did you mean"),
        (("--memory-budget", "6"), "with its unit, such as 2GB"),
        (("--sweep", "batch"), "AXIS=A,B"),
        (("--sweep", "batch=1,1"), "twice"),
        (("--sweep", "depth=1,2"), "no size called 'depth'"),
        (("--baseline", "lion", "-o", "adamw"), "not among the optimizers"),
        (("--precision", "fp8"), "must be one of fp32, bf16, fp16"),
        (("--preset", "round2"), "must be one of round1, adamw-8bit"),
        (("--hybrid", "norm*", "-o", "adamw8bit"), "PATTERN,PATTERN=float32"),
        (("--hybrid", "norm*=float32", "-o", "adamw"), "fewer bits"),
        (("--hybrid", "zzz*=float32", "-o", "adamw8bit"), "--hybrid zzz*: no parameter has such a name"),
        (("--hybrid", "zzz*=float32", "-o", "adamw8bit", "--plan"), "no parameter has such a name; there are tokens"),
        (("--lr-sweep", "1e-4", "-o", "lion"), "FROM:TO"),
        (("--budget", "1", "-o", "lion"), "with its unit, such as 90s"),
        (("--padding", "left"), "padding must be one of"),
        (("--out", "nowhere/p.sqlite"), "there is no directory"),
    ],
)
def test_bad_input_is_one_line(fallline: Command, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "EMPTY").write_text("  \n")
    (tmp_path / "BINARY").write_bytes(b"abc\0def" * 400)
    given = [str(tmp_path / text) if text in ("EMPTY", "BINARY", "MISSING") else text for text in arguments]
    out = () if "--out" in given else ("--out", str(tmp_path / "p.sqlite"))
    ended = fallline("profile", *SHORT, *given, *out)
    assert ended.code == 2 and words in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_a_file_of_another_workload_is_refused(fallline: Command, out: str) -> None:
    assert fallline("profile", *SHORT, "-o", "adamw,lion", "--out", out, "--quiet").code == 0
    ended = fallline("profile", "chars", "--steps", "4", "--threads", "1", "-o", "adamw,lion", "--out", out)
    assert ended.code == 2
    assert "holds a profile of gpt-tiny@" in ended.err and "--fresh begins anew" in ended.err
    other = fallline("profile", *SHORT, "-o", "adamw,qhm", "--out", out)
    assert other.code == 2 and "holds a profile of adamw, lion with other settings" in other.err
    assert fallline("profile", *SHORT, "-o", "adamw,qhm", "--out", out, "--fresh", "--quiet").code == 0


def test_a_batch_beyond_memory_is_a_row(fallline: Command, out: str) -> None:
    asked = ("gpt-tiny@layers=1,width=32,heads=2,sequence=16", "--threads", "1", "--repeats", "1", "--steps", "2")
    sweep = ("--sweep", "batch=1,30000000", "-o", "adamw,lion", "--out", out, "--json")
    small, large = result(fallline("profile", *asked, *sweep))["cells"]
    assert small["arms"]["adamw"]["status"] is None
    assert large["arms"]["adamw"]["status"].startswith("out of memory")


def test_a_question_that_a_race_answers_is_handed_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    trained = Trained(workload="rosenbrock", optimizers=["adamw,sophiag,fusedadam"])
    command = command_of(trained, Questions(to_loss=1e-3), seed=3, rest=["--json"])
    assert command == ["race", "rosenbrock", "-o", "adamw", "--target", "0.001", "--seed", "3", "--json"]
    said = capsys.readouterr().err
    assert "sophiag is left out" in said and "fusedadam is left out" in said
    assert command_of(trained, Questions(budget="1h"), 0, [])[4:8] == ["--ruleset", "budget", "--seconds", "3600"]
