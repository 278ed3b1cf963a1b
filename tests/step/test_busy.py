"""Times taken while the machine had other work make no verdict, and are taken again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fallline.document.csv import csv_text
from fallline.document.terminal import plain
from fallline.measure import load
from fallline.step import sentences
from fallline.step.analyse import analyse, doubtful
from fallline.step.document import Report
from fallline.step.plan import Plan
from fallline.step.results import CellRecord, Results
from fallline.step.run import Limits, measure_all
from tests.step.records import plan_of, records, slower_than_the_probe

CLEAR = {"compiled": 3.0, "eager": 6.0, "fused": 1.1}
OTHERS = "other work took 1.9 of 2 processors meanwhile"


def measured(plan: Plan, busy: int) -> list[CellRecord]:
    """The first so many cells on a busy machine, whose times are a hundred times as long."""
    found = records(plan, slower_than_the_probe(CLEAR))
    for record in found[:busy]:
        record.facts["busy"] = OTHERS
        for arm in record.arms.values():
            arm.seconds = [100 * seconds for seconds in arm.seconds]
    return found


def test_a_busy_cell_takes_no_part_and_the_others_decide() -> None:
    plan = plan_of([1, 4], [65536, 1048576])
    (table,) = analyse(plan, measured(plan, 1))
    assert [row.verdict() for row in table.rows] == ["set aside", "fused", "fused", "fused"]
    assert table.rows[0].wrong == [f"the machine was busy: {OTHERS}"]
    assert not any(row.wrong for row in table.rows[1:]), "its long times cast no doubt on larger cells"
    assert sentences.who_wins(table).endswith("fused wins 3 of 3 cells; no ties; 1 set aside by a gate.")
    assert list(doubtful([table])) == [plan.cells[0]], "the load may have gone"
    (note,) = sentences.busy([table])
    assert note.startswith("1 cell of 4 set aside, the machine was busy") and "--fresh measures again" in note


def test_where_all_was_measured_under_load_there_is_no_verdict(tmp_path: Path) -> None:
    plan = plan_of([1], [65536, 1048576])
    with Results(tmp_path / "r.sqlite") as results:
        results.begin({})
        for record in measured(plan, 2):
            results.put(record)
        made = Report(plan, results).document()
        assert not doubtful(analyse(plan, results.load(plan.cells))), "a machine that stays busy is not asked again"
    text = plain(made, 10_000)
    assert text.splitlines()[-1].startswith("No verdict: the machine was busy with other work")
    assert " take " not in text and "wins" not in text and "faster" not in text and "“" not in text
    assert " !" in text and OTHERS in text
    assert made.result["winners"] == made.result["recommendations"] == made.result["claims"] == []
    assert OTHERS in csv_text(made)


@pytest.mark.parametrize("busy", [None, OTHERS])
def test_what_a_cell_got_of_the_machine_is_stored_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str | None
) -> None:
    plan = plan_of([1], [100], ["eager", "fused"])
    monkeypatch.setattr(load, "reason", lambda *_: busy)
    with Results(tmp_path / "r.sqlite") as results:
        results.begin({})
        measure_all(plan, results, Limits(seconds=0.0), lambda *_: None)
        (record,) = results.load(plan.cells)
        assert results.done(plan.cells) == {plan.cells[0].key}, "a command that was interrupted goes on either way"
    share = record.facts["share"]
    assert share["wall"] > 0 and share["thread"] >= 0 and share["threads"] == 1
    assert record.facts["busy"] == busy


def test_files_from_before_have_no_such_facts() -> None:
    plan = plan_of([1], [65536])
    (table,) = analyse(plan, measured(plan, 0))
    assert table.rows[0].busy is None and table.rows[0].winner == "fused"
