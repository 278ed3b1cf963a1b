"""``fallline report``: what it writes, says, and refuses."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from fallline.document.html.library import available
from tests.cli import Command
from tests.report import stored_race, stored_steps

pytestmark = pytest.mark.skipif(not available(), reason="plotly is not installed")


def test_a_page_is_written_and_the_verdict_said(fallline: Command, tmp_path: Path) -> None:
    race, out = stored_race(tmp_path), tmp_path / "page.html"
    ended = fallline("report", str(race), "--out", str(out))
    assert ended.code == 0 and ended.err == ""
    assert ended.out.startswith("race-tiny: Take a") and f"{out}, " in ended.out
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and len(page) < 6_000_000


def test_json_names_the_page_and_its_results(fallline: Command, tmp_path: Path) -> None:
    race, steps, out = stored_race(tmp_path), stored_steps(tmp_path), tmp_path / "page.html"
    data = json.loads(fallline("report", str(race), str(steps), "--out", str(out), "--json").out)
    assert set(data) == {"page", "bytes", "results", "notes"}
    assert data["bytes"] == out.stat().st_size
    assert [(one["file"], one["kind"]) for one in data["results"]] == [(str(race), "Race"), (str(steps), "Step")]
    assert all(one["verdicts"] and one["data"] for one in data["results"])


def test_quiet_says_nothing_but_remarks(fallline: Command, tmp_path: Path) -> None:
    files = [str(stored_race(tmp_path)), str(stored_race(tmp_path, "other"))]
    ended = fallline("report", *files, "--out", str(tmp_path / "p.html"), "--quiet")
    assert ended.out == "" and "races on different workloads are not compared" in ended.err


def test_the_same_results_give_the_same_page(fallline: Command, tmp_path: Path) -> None:
    race = stored_race(tmp_path)
    for name in ("a.html", "b.html"):
        fallline("report", str(race), "--out", str(tmp_path / name), "--quiet")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.sqlite"], "nothing.sqlite: there is no such results file"),
        (["--port", "80", "race"], "--port: is for --serve"),
        (["race", "--out", "."], "this is a directory"),
        (["race", "--out", "no/p.html"], "there is no directory no; make it first"),
        (["race", "--out", "race"], "--out race: is one of the results files"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    stored_race(tmp_path).rename(tmp_path / "race")
    before = (tmp_path / "race").read_bytes()
    monkeypatch.chdir(tmp_path)
    ended = fallline("report", *arguments)
    assert ended.code == 2 and told in ended.err and len(ended.err.splitlines()) == 1
    assert (tmp_path / "race").read_bytes() == before and not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_completed_leaves_the_old_one(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race, out = stored_race(tmp_path), tmp_path / "page.html"
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    ended = fallline("report", str(race), "--out", str(out))
    assert ended.code == 2 and "could not be written (No space left on device)" in ended.err
    assert out.read_text() == "old" and not list(tmp_path.glob(".page.html*"))


def test_others_may_read_the_page_as_any_file(fallline: Command, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    fallline("report", str(stored_race(tmp_path)), "--out", str(out))
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE(os.stat(out).st_mode) == stat.S_IMODE(os.stat(tmp_path / "plain").st_mode)
