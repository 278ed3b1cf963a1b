"""The contents of a tracker after ``--log``, read back by the tracker's own package."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fallline.logs.material import Material
from fallline.logs.sinks import SINKS, SinkUnavailable, log
from fallline.race.logged import material_of
from fallline.race.results import Results
from tests.cli import Command
from tests.cli.conftest import fallline_command as fallline_command
from tests.race import write_workload
from tests.report import stored_race


@pytest.fixture
def race(tmp_path: Path) -> Path:
    return stored_race(tmp_path)


@pytest.fixture
def material(race: Path) -> Material:
    return material_of(race)


def stored(race: Path) -> dict[str, list[tuple[int, float]]]:
    """Run → step and value, from the results file itself."""
    with Results(race, writable=False) as results:
        curves = results.curves()
        return {
            f"{row.contestant}-study-{row.study}": [(s, v) for s, v, _ in curves[row.id] if v is not None]
            for row in results.rows()
            if row.id in curves
        }


def test_the_material_has_every_trial_with_its_curve_and_setting(race: Path, material: Material) -> None:
    expected = stored(race)
    assert {run.name for run in material.runs} == set(expected) and len(expected) > 12
    for run in material.runs:
        (curve,) = run.curves
        assert [(step, value) for step, value, _ in curve.points()] == expected[run.name]
        assert run.settings["lr"] == 0.1 and run.group == run.name.partition("-")[0]
        assert run.outcome["steps"] == curve.steps[-1]
    assert material.artefacts == [race] and "Take a" in material.text


def test_tensorboard_draws_every_curve_over_steps_and_seconds(race: Path, material: Material, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: make test-logs")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # a second call replaces the first
        said = log(material, "tensorboard", tmp_path)
    place = tmp_path / "runs" / "race-tiny"
    assert str(place) in said
    for name, points in stored(race).items():
        events = EventAccumulator(str(place / name))
        events.Reload()
        scalars = events.Scalars("mse")
        assert [(one.step, one.value) for one in scalars] == [(s, pytest.approx(v)) for s, v in points]
        assert [one.wall_time for one in scalars] == [float(step) for step, _ in points], "seconds of training"
        assert events.Tags()["scalars"].count("outcome/steps") == 1
    summary = EventAccumulator(str(place / "summary"))
    summary.Reload()
    text = summary.Tensors("result/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "Take a" in text and "| contestant |" in text
    assert (place / "summary" / race.name).read_bytes() == race.read_bytes()


def test_mlflow_keeps_curves_settings_tables_and_files(
    race: Path, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: make test-logs")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    log(material, "mlflow", tmp_path)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("race-tiny")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id], max_results=1000)}
    expected = stored(race)
    assert set(runs) == {*expected, "result"}
    some = sorted(expected)[0]
    history = client.get_metric_history(runs[some].info.run_id, "mse")
    assert sorted((one.step, one.value) for one in history) == expected[some]
    assert runs[some].data.params["lr"] == "0.1" and runs[some].data.tags["group"] == "a"
    files = {one.path for one in client.list_artifacts(runs["result"].info.run_id)}
    assert {"result.md", "tables", race.name} <= files


def test_trackio_keeps_curves_and_the_result(
    race: Path, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, because trackio reads its folder when it is imported."""
    pytest.importorskip("trackio", reason="trackio is not installed: make test-logs")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    code = (
        "import sys; from pathlib import Path\n"
        "from fallline.logs.sinks import log; from fallline.race.logged import material_of\n"
        "log(material_of(Path(sys.argv[1])), 'trackio', Path(sys.argv[2]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(race), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", "stdout belongs to the result"
    database = sqlite3.connect(tmp_path / "trackio" / "race-tiny.db")
    rows = database.execute("select run_name, step, metrics from metrics").fetchall()
    found: dict[str, list[tuple[int, float]]] = {}
    for name, step, metrics in rows:
        values = json.loads(metrics)
        if "mse" in values:
            found.setdefault(name, []).append((step, values["mse"]))
    assert {name: sorted(points) for name, points in found.items()} == stored(race)
    assert any(name == "result" and "Take a" in json.dumps(json.loads(metrics)) for name, _, metrics in rows)


def test_wandb_keeps_curves_tables_and_files_without_a_network(
    race: Path, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: make test-logs")
    monkeypatch.setenv("WANDB_MODE", "offline")
    few = Material(material.project, material.runs[:2], material.document, material.artefacts)
    said = log(few, "wandb", tmp_path)
    assert "offline" in said
    runs = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == 3
    points = stored(race)[material.runs[0].name]
    found = [_history(path) for path in runs]
    assert any([(int(row["_step"]), row["mse"]) for row in rows if "mse" in row] == points for rows in found)


def _history(path: Path) -> list[dict[str, Any]]:
    """The rows of a run, from the file that would be sent to the server."""
    from wandb.proto import wandb_internal_pb2

    rows = []
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows


def _records(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format: blocks of 32 KiB, and pieces with seven bytes of checksum, size, kind.

    The first seven bytes of the file are wandb's own.
    """
    block, at, whole = 32_768, 7, b""
    while at + 7 <= len(content):
        left = block - at % block
        if left < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", content, at + 4)
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield whole
            whole = b""


def test_values_that_are_not_finite_are_left_out(material: Material) -> None:
    from fallline.logs.material import Curve

    curve = Curve("loss", [1, 2, 3, 4], [1.0, None, math.nan, math.inf], [0.1, 0.2, 0.3, 0.4])
    assert list(curve.points()) == [(1, 1.0, 0.1)]


def test_unknown_and_missing_trackers_are_refused_before_anything_runs(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["race", str(write_workload(tmp_path)), "--results", str(tmp_path / "r.sqlite")]
    ended = fallline(*arguments, "--log", "clearml")
    assert ended.code == 2 and "--log clearml: no such tracker; there are tensorboard, trackio" in ended.err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ended = fallline(*arguments, "--log", "wandb")
    assert ended.code == 2 and "--log wandb is not installed; pip install wandb" in ended.err
    assert not (tmp_path / "r.sqlite").exists()


def test_a_tracker_that_fails_costs_its_copy_only(material: Material, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: make test-logs")
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(SinkUnavailable, match="tensorboard: could not be written"):
        log(material, "tensorboard", tmp_path)


def test_a_race_logs_when_it_has_ended(fallline: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: make test-logs")
    race = ["race", str(write_workload(tmp_path)), "-o", "adamw", "--trials", "1", "--studies", "1", "-j", "1"]
    race += ["--clock", "steps", "--results", str(tmp_path / "r.sqlite"), "--log", "tensorboard", "--json"]
    ended = fallline(*race)
    assert ended.code == 0 and "verdict" in json.loads(ended.out)
    assert "tensorboard --logdir" in ended.err
    assert list((tmp_path / "runs" / "r" / "adamw-study-0").glob("events.out.tfevents.*"))


def test_trackers_are_imported_only_when_they_are_asked_for() -> None:
    code = "import sys, fallline.cli, fallline.race.logged, fallline.logs.sinks; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    assert "fallline.logs.sinks" in loaded and not loaded & {*SINKS, "plotly"}
