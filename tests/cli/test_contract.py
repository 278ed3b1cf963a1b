"""Programs may rely on the keys of every verb's JSON, and the options that every verb has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import Command
from tests.race import write_workload
from tests.score import reach

BOARD = {
    "rows", "pairs", "groups", "workloads", "variants", "studies", "tau_max", "reference", "compat", "by_tau_max",
    "never_reached", "tau_max_axis", "alpha", "verdict",
}  # fmt: skip
RACE = {
    "rules", "workloads", "clocks", "calibration", "statuses", "quality_at_budget", "training_hours",
    "evaluation_hours", "saved_hours", "notes", "unfinished", "phase", "warning", "verdict", "top_two",
    "looks", "ended_by", "choice", "cross_check", "settings", "going_on", "does_not_fit", "misses", "curves",
    "pace_errors", "other_rates",
}  # fmt: skip
STEP = {
    "preset", "data", "file", "machines", "tables", "winners", "told_apart", "compiling", "recommendations", "regions",
    "claims", "memory", "against", "notes", "verdict",
}  # fmt: skip
STEP_ROW = {
    "label", "tensors", "size", "parameters", "threads", "flush", "dtype", "winners", "wrong", "limit_gb_per_s",
    "rounds", "stopped", "record", "arms",
}  # fmt: skip
STEP_ARM = {
    "ms", "ms_low", "ms_high", "samples", "gb_per_s", "fraction_of_limit", "launches", "first_step_ms", "winner",
    "tied", "suspect", "missing",
}  # fmt: skip


def keys(fallline: Command, *arguments: str) -> set[str]:
    return set(json.loads(fallline(*arguments, "--json").out))


def test_race_and_results(fallline: Command, tmp_path: Path) -> None:
    race = ["race", str(write_workload(tmp_path)), "-o", "adamw", "--trials", "1", "--studies", "1", "-j", "1"]
    race += ["--clock", "steps", "--results", str(tmp_path / "r.sqlite")]
    assert {"trials", "to_run", "hours", "jobs", "memory_gib", "by_workload"} <= keys(fallline, *race, "--plan")
    data = json.loads(fallline(*race, "--json").out)
    assert set(data) == RACE and set(data["clocks"]["steps"]) == BOARD
    assert keys(fallline, "results", "status", str(tmp_path / "r.sqlite")) == RACE


def test_step(fallline: Command, tmp_path: Path) -> None:
    quick = [
        "--tensors",
        "1",
        "--sizes",
        "100",
        "--threads",
        "1",
        "--steps",
        "2",
        "--no-flush",
        "--impl",
        "eager,foreach",
    ]
    data = json.loads(fallline("step", *quick, "--out", str(tmp_path / "r.sqlite"), "--json").out)
    assert set(data) == STEP
    (row,) = data["tables"][0]["rows"]
    assert set(row) == STEP_ROW and set(row["arms"]["eager"]) == STEP_ARM


def test_score(fallline: Command, tmp_path: Path) -> None:
    reach(tmp_path / "logs", "a", 0, "wmt", 1, 10.0)
    assert keys(fallline, "score", str(tmp_path / "logs")) == BOARD | {"logs"}


@pytest.mark.usefixtures("known_bandwidth")
def test_doctor(fallline: Command) -> None:
    data = json.loads(fallline("doctor", "--json").out)
    assert set(data) == {"findings", "verdict"}
    assert all(set(found) == {"name", "value", "cost", "remedy", "data"} for found in data["findings"])


@pytest.mark.parametrize(
    "verb",
    [
        "optimizers",
        "contestants",
        "doctor",
        "data",
        "gallery",
        "race",
        "score",
        "step",
        "profile",
        "memory",
        "results status",
    ],
)
def test_every_verb_takes_the_same_options(fallline: Command, verb: str) -> None:
    words = fallline(*verb.split(), "--help").out.split()
    assert {"--json", "--format", "--quiet", "--out"} <= {word.rstrip(",") for word in words}


@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown", "html"])
def test_every_form_has_every_optimizer(fallline: Command, form: str) -> None:
    ended = fallline("optimizers", "lion*", "--format", form)
    assert ended.code == 0 and "lion8bit" in ended.out


def test_forms_that_are_not_there_are_refused(fallline: Command) -> None:
    ended = fallline("optimizers", "--format", "pdf")
    assert ended.code == 2 and "--format pdf: must be one of text, json, csv, markdown, html" in ended.err


def test_a_page_that_could_not_be_drawn_is_refused_at_once(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fallline.document.html.library.available", lambda: False)
    ended = fallline("optimizers", "--format", "html")
    assert ended.code == 2 and "--format html: figures of a page need plotly" in ended.err and ended.out == ""
