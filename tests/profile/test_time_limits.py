"""Cells keep their time: counts include rounds that are not timed, and a cell that is late stops and goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from fallline.profile import cell
from fallline.profile.arms import arms_of
from fallline.profile.cell import Limits, Telling, measure
from fallline.profile.document import document
from fallline.profile.plan import LEAST_BLOCKS, SETTLE, Plan, counts_within
from fallline.profile.results import Results


@pytest.mark.parametrize("seconds", [30.0, 100.0, 500.0, 1500.0])
@pytest.mark.parametrize("warmup", [1, 2, 10])
def test_all_rounds_fit_into_the_time_unless_they_are_the_fewest(seconds: float, warmup: int) -> None:
    counts = counts_within(seconds, 1.0, repeats=3, warmup=warmup)
    taken = 3 * (warmup + (counts.blocks - 1) * SETTLE + counts.steps)
    assert taken <= seconds or counts.steps == 6
    assert counts.blocks >= LEAST_BLOCKS


def test_a_late_cell_stops_after_two_blocks_says_so_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = "gpt-tiny@layers=1,width=32,heads=2,batch=2,sequence=16"
    plan = Plan(spec, tuple(arms_of(["adamw,adamw8bit"])), "adamw", repeats=2)
    told: list[str] = []
    with Results(tmp_path / "p.sqlite") as results:
        results.begin([plan], ["test"])
        with monkeypatch.context() as late:
            late.setattr(cell, "OVERRUN", -1.0)
            measure(plan, results, Limits(seconds=0.0), Telling(notice=told.append))
        assert len(results.load(plan).blocks) == LEAST_BLOCKS and not results.load(plan).is_complete
        assert any("time is up after block 2 of 4" in text for text in told)
        assert any("2 of 4 blocks were measured" in note for note in document(results).result["notes"])
        measure(plan, results, Limits(seconds=1000.0), Telling())
        assert results.load(plan).is_complete
