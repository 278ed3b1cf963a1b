"""A profile in trackers, with their real packages, read back."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from fallline.profile.arms import arms_of
from fallline.profile.cell import Limits, Telling, measure
from fallline.profile.document import document
from fallline.profile.logged import material_of
from fallline.profile.plan import Plan
from fallline.profile.results import Results
from tests.cli import Command
from tests.cli.conftest import fallline_command as fallline_command

SPEC = "gpt-tiny@layers=1,width=32,heads=2,batch=2,sequence=16"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "p.sqlite"
    plan = Plan(SPEC, tuple(arms_of(["adamw,adamw8bit[lr=1e-4]"])), "adamw", repeats=2)
    with Results(path) as results:
        results.begin([plan], ["test"])
        measure(plan, results, Limits(steps=6), Telling())
    return path


def test_each_arm_and_repeat_is_a_run_with_every_stored_loss(profile: Path) -> None:
    with Results(profile, writable=False) as results:
        made = document(results)
        steps = results.load(results.plans()[0]).steps
    material = material_of(profile, made)
    assert [run.name for run in material.runs] == [
        *("adamw-seed-0", "adamw-seed-1", "adamw8bit-lr-1e-4--seed-0", "adamw8bit-lr-1e-4--seed-1")
    ]
    for run in material.runs:
        losses = next(curve for curve in run.curves if curve.name == "training loss")
        repeat = run.settings["repeat"]
        assert losses.values == [s.loss for s in steps if s.arm == run.group and s.repeat == repeat]
        assert run.outcome["tokens per second"] > 0 and run.outcome["state MB"] > 0
    assert material.runs[2].settings["lr"] == 1e-4


@pytest.mark.parametrize("tracker", ["tensorboard", "mlflow", "wandb"])
def test_the_command_writes_to_the_tracker(
    fallline: Command, profile: Path, tmp_path: Path, tracker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(tracker, reason=f"{tracker} is not installed: make test-logs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    ended = fallline("profile", SPEC, "--out", str(profile), "--show", "--log", tracker)
    assert ended.code == 0, ended.err
    assert "4 runs are in" in ended.err
    if tracker == "tensorboard":
        assert len(list((tmp_path / "runs" / "p").iterdir())) == 5
    elif tracker == "mlflow":
        rows = sqlite3.connect(tmp_path / "mlflow.db").execute(
            "select count(*) from metrics where key = 'training loss'"
        )
        assert rows.fetchone()[0] == 4 * 9
    else:
        assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 5


def test_trackio_keeps_every_loss(profile: Path, tmp_path: Path, fallline: Command) -> None:
    pytest.importorskip("trackio", reason="trackio is not installed: make test-logs")
    import os
    import subprocess
    import sys

    command = [sys.executable, "-m", "fallline", "profile", SPEC, "--out", str(profile), "--show", "--log", "trackio"]
    place = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}
    ended = subprocess.run(command, capture_output=True, text=True, env=place)
    assert ended.returncode == 0, ended.stderr
    rows = sqlite3.connect(tmp_path / "trackio" / "p.db").execute("select metrics from metrics").fetchall()
    assert sum("training loss" in json.loads(metrics) for (metrics,) in rows) == 4 * 9


def test_a_tracker_that_is_not_there_is_refused_before_anything_is_measured(fallline: Command, tmp_path: Path) -> None:
    out = tmp_path / "none.sqlite"
    ended = fallline("profile", SPEC, "--steps", "6", "--out", str(out), "--log", "neptune")
    assert ended.code == 2 and "neptune: no such tracker; there are tensorboard" in ended.err
    assert not out.exists()
