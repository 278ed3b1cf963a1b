"""The order of steps changes no loss: arms together, arms in turns, and a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fallline.profile import cell, saved_arms
from fallline.profile.arms import arms_of
from fallline.profile.cell import Limits, Telling, measure
from fallline.profile.plan import Plan
from fallline.profile.results import Results

PLAN = Plan(
    "gpt-tiny@layers=1,width=32,heads=2,batch=2,sequence=16",
    tuple(arms_of(["adamw,adamw8bit"])),
    "adamw",
    repeats=2,
    threads=1,
)


def measured(path: Path, telling: Telling) -> dict[Any, Any]:
    """Every loss and every value of the metric."""
    with Results(path) as results:
        results.begin([PLAN], ["test"])
        measure(PLAN, results, Limits(steps=15), telling)
        record = results.load(PLAN)
    assert record.is_complete
    return {(step.repeat, step.arm, step.step): step.loss for step in record.steps} | record.evaluations


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    return measured(tmp_path_factory.mktemp("whole") / "p.sqlite", Telling())


def test_arms_that_take_turns_have_the_same_losses(
    whole: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "ROOM", 0.0)
    told: list[str] = []
    assert measured(tmp_path / "p.sqlite", Telling(notice=told.append)) == whole
    assert told == ["memory does not hold all arms at once; they take turns, a block of steps each"] * PLAN.repeats


def test_an_interrupted_run_goes_on_from_its_checkpoints(
    whole: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_arms, "SAVE_EVERY", 0.0)
    states = tmp_path / "p.sqlite.states"

    def interrupt(plan: Plan, done: int, blocks: int, seconds: float) -> None:
        assert len(list(states.iterdir())) == len(PLAN.arms)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "p.sqlite", Telling(block=interrupt))
    told: list[str] = []
    assert measured(tmp_path / "p.sqlite", Telling(notice=told.append)) == whole
    assert told == [] and not states.exists()


def test_checkpoints_that_cannot_be_written_cost_nothing_but_a_line(
    whole: dict[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_arms, "SAVE_EVERY", 0.0)
    (tmp_path / "p.sqlite.states").write_text("in the way")
    told: list[str] = []
    assert measured(tmp_path / "p.sqlite", Telling(notice=told.append)) == whole
    assert len(told) == PLAN.repeats and "checkpoints could not be written" in told[0]
