"""``fallline race --ladder``: it climbs, goes on, and refuses bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import Command
from tests.race import write_workload

QUICK = ["-o", "adamw,lion", "--ruleset", "self", "--self-factor", "1", "--studies", "2", "-j", "1"]


def test_a_ladder_of_a_users_file(fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_workload(tmp_path, target=None, max_steps=60, eval_every=2)
    ended = fallline("race", str(path), *QUICK, "--ladder", "steps=0.5,1", "--figures", "drawn")
    assert ended.code == 0, ended.err
    assert "tiny×0.5: target mse" in ended.out and "Results: race-tiny-steps.sqlite" in ended.out
    assert "Measuring steps" not in ended.err, "a step costs the same on every rung"
    assert ended.out.splitlines()[-1].startswith(("lion", "Whether lion"))
    status = fallline("results", "status", "race-tiny-steps.sqlite")
    assert status.code == 0 and status.out == ended.out
    data = json.loads(fallline("results", "status", "race-tiny-steps.sqlite", "--json").out)
    assert data["ladder"]["axis"] == "steps" and data["rules"]["studies"] == 2
    assert list(data["ladder"]["sentences"]) == ["lion"]
    again = fallline("race", str(path), *QUICK, "--ladder", "steps=0.5,1")
    assert again.code == 0 and again.out == ended.out
    plan = fallline("race", str(path), *QUICK, "--ladder", "steps=0.5,1,2", "--plan")
    assert plan.code == 0 and "tiny×2: ms per step" in plan.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ladder", "steps"], "--ladder: 'steps' is no ladder"),
        (["--ladder", "width=1,2"], "has no size called 'width'"),
        (["--ladder", "steps=1,2", "--target", "0.1"], "--target 0.1: on a ladder the reference sets the target"),
        (["--ladder", "steps=1,2", "-o", "adamw"], "enter at least two contestants"),
        (["chars", "--ladder", "steps=1,2"], "is for one workload, got 2"),
        (["--ladder", "steps=1,2", "--ruleset", "budget", "--seconds", "3"], "--seconds 3: the rungs of a ladder"),
        (["--ladder", "steps=1e-9,1e-8"], "two of the rungs have the same budget"),
    ],
)
def test_bad_ladders_are_one_line(fallline: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = fallline("race", str(write_workload(tmp_path)), *arguments, "--results", str(tmp_path / "r.sqlite"))
    assert ended.code == 2 and said in ended.err and len(ended.err.strip().splitlines()) == 1
    assert not (tmp_path / "r.sqlite").exists()
