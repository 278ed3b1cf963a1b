"""A results file and a checkpoint that an earlier version wrote: the race goes on with them, and shows what they hold.

``stored/race_format_2.sql`` is the content of a results file whose race was killed in its third trial, after a
checkpoint at step 60 and before the row of that evaluation was written; ``stored/trial_3.pt`` is that checkpoint.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
import torch

from fallline.race.clock.sessions import Rounds, Session
from fallline.race.engine import LocalEngine
from fallline.race.plan import Entry
from fallline.race.progress import Progress
from fallline.race.results import Results
from fallline.race.results.export import export
from fallline.race.run import Race
from fallline.race.verdict.summary import summarize
from fallline.workloads import load
from tests.race import write_workload

STORED = Path(__file__).with_name("stored")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    path = tmp_path / "race-tiny.sqlite"
    database = sqlite3.connect(path)
    database.executescript((STORED / "race_format_2.sql").read_text().replace("FOLDER", str(tmp_path)))
    database.close()
    (tmp_path / "race-tiny.sqlite.checkpoints").mkdir()
    shutil.copy(STORED / "trial_3.pt", tmp_path / "race-tiny.sqlite.checkpoints" / "3.pt")
    write_workload(tmp_path, max_steps=120, eval_every=10, target=0.05)
    return path


def test_it_can_be_read(killed: Path, tmp_path: Path) -> None:
    with Results(killed, writable=False) as results:
        summary = summarize(results)
        assert [row.status for row in results.rows()] == ["over budget", "over budget", None, None]
        assert summary.unfinished == 2 and summary.verdict.startswith("The race has not ended: 2 trials are to run")
        assert set(summary.calibration) == {("tiny", "adamw"), ("tiny", "schedule_free_adamw")}
        assert results.sessions("tiny") == [], "no samples were stored in it"
        written = {path.stem: path.read_text() for path in export(results, tmp_path / "tables", "csv")}
    assert len(written["race-tiny-evaluations"].splitlines()) == 1 + 2 * 12 + 5


def test_samples_of_the_earlier_format_become_rounds_of_sessions(killed: Path) -> None:
    database = sqlite3.connect(killed)
    database.execute("update calibration set samples = '[0.1, 0.2, 0.3, 0.1]' where contestant = 'adamw'")
    database.execute("update calibration set samples = '[0.2, 0.4, 0.6, 0.2]' where contestant <> 'adamw'")
    database.commit()
    with Results(killed, writable=False) as results:
        (session,) = results.sessions("tiny")
        assert session == Session(
            {"adamw": Rounds([0.1, 0.2, 0.3, 0.1], []), "schedule_free_adamw": Rounds([0.2, 0.4, 0.6, 0.2], [])},
            {},
            "was not measured",
        ), "they were measured side by side, as the same machine and load say"
        assert session.clock == "wall"
        assert summarize(results).pace_errors["tiny"]["adamw", "schedule_free_adamw"] < 0.008
    # One of them joined later: both were measured, but not beside each other.
    database.execute("update calibration set scale = 1.5 where contestant <> 'adamw'")
    database.commit()
    database.close()
    with Results(killed) as results:
        assert [list(session.steps) for session in results.sessions("tiny")] == [["adamw"], ["schedule_free_adamw"]]
    with Results(killed) as results:
        assert len(results.sessions("tiny")) == 2, "it is upgraded once"


def test_it_goes_on_from_the_stored_checkpoint(killed: Path, tmp_path: Path) -> None:
    saved = torch.load(STORED / "trial_3.pt", weights_only=True)
    spec, notices, engine = str(tmp_path / "tiny.py"), list[str](), LocalEngine(1)
    try:
        with Results(killed) as results:
            before = {row.id: results.evaluations(row.id) for row in results.rows()}
            rules, contestants = results.rules(), results.contestants()
            progress = Progress(notice=notices.append)
            Race([Entry(spec, load(spec))], contestants, rules, results, engine, progress).run()
            rows = results.rows()
            curves = {row.id: results.evaluations(row.id) for row in rows}
            summary = summarize(results)
    finally:
        engine.close()
    assert all(row.status is not None for row in rows) and summary.unfinished == 0
    assert all(curves[trial][: len(rest)] == rest for trial, rest in before.items()), "what was stored stays"
    assert [step for step, _, _ in curves[3]] == list(range(10, 130, 10))
    row = curves[3][5]
    assert row == (60, saved["last"]["value"], saved["training"]), "the row that was missing is the checkpoint's"
    assert rows[2].attempts == 2 and "not deterministic" not in (rows[2].note or "")
    assert notices == [], "nothing was measured again, and no file has changed"
