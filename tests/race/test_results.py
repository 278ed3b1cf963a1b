"""The results file: what may change when a race goes on, and what is refused in one line."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fallline.measure.store import StoreError
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.contestants import Contestant, named
from fallline.race.engine.messages import End, Evaluation
from fallline.race.plan import TARGET, Entry, Rules, target_trials, trials
from fallline.race.results import SCHEMA, Calibrated, Results, resume
from fallline.race.results.export import export
from fallline.race.results.location import default_path
from fallline.race.results.phase import phase
from fallline.race.verdict.summary import summarize
from fallline.workloads import load
from tests.race import write_workload

RULES = Rules(trials=2, studies=2)


def entry(folder: Path, **options: object) -> Entry:
    path = str(write_workload(folder, **options))  # type: ignore[arg-type]
    return Entry(path, load(path))


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    path = tmp_path / "race.sqlite"
    with Results(path) as results:
        first = entry(tmp_path)
        results.begin([first], [named("adamw")], RULES)
        results.add_trials(trials([first], [named("adamw")], RULES))
        results.start(1, 120)
    return path


def test_the_same_race_goes_on_and_may_grow(begun: Path, tmp_path: Path) -> None:
    more = replace(RULES, studies=3)
    both = [named("adamw"), named("lion")]
    with Results(begun) as results:
        before = [(row.id, row.seed, row.point) for row in results.rows()]
        results.begin([entry(tmp_path)], both, more)
        results.add_trials(trials([entry(tmp_path)], both, more))
        after = [(row.id, row.seed, row.point) for row in results.rows()]
        assert after[: len(before)] == before
        assert len(after) == 2 * 2 * 3
        assert results.rules() == more


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rules": replace(RULES, seed=1)}, "seed = 0, not 1"),
        ({"rules": replace(RULES, trials=5)}, "trials = 2, not 5"),
        ({"rules": replace(RULES, ruleset="self")}, "ruleset = 'external'"),
        ({"rules": replace(RULES, studies=1)}, "not fewer"),
        ({"workload": {"name": "other"}}, "holds a race on tiny; this one is on other"),
        ({"workload": {"target": 0.5}}, "had the target 4, now 0.5"),
        ({"workload": {"max_steps": 50}}, "max_steps = 120, now 50"),
        ({"contestant": Contestant("adamw", "adamw", {"lr": 0.5})}, "adamw was defined otherwise"),
        ({"contestant": named("lion")}, "holds adamw too"),
    ],
)
def test_another_race_is_refused(begun: Path, tmp_path: Path, change: dict[str, object], said: str) -> None:
    with Results(begun) as results, pytest.raises(StoreError, match=said) as error:
        results.begin(
            [entry(tmp_path, **change.get("workload", {}))],  # type: ignore[arg-type]
            [change.get("contestant", named("adamw"))],  # type: ignore[list-item]
            change.get("rules", RULES),  # type: ignore[arg-type]
        )
    assert "\n" not in str(error.value) and "--results" in str(error.value)


def test_a_target_beside_the_one_that_the_reference_set_is_refused_not_ignored(begun: Path, tmp_path: Path) -> None:
    with Results(begun) as results:
        results.set_workload("tiny", target=0.25, target_from="the best of adamw")
        results.begin([entry(tmp_path, target=None)], [named("adamw")], RULES)
        assert results.workloads()["tiny"]["target"] == 0.25
        with pytest.raises(StoreError, match=r"tiny had the target 0.25, now 0.5; name another file"):
            results.begin([entry(tmp_path, target=0.5)], [named("adamw")], RULES)
        results.set_workload("tiny", target=None, target_from=None)
        with pytest.raises(StoreError, match=r"tiny had no target yet, now 0.5"):
            results.begin([entry(tmp_path, target=0.5)], [named("adamw")], RULES)


def test_a_race_without_a_trial_that_began_makes_room_for_another(tmp_path: Path) -> None:
    with Results(tmp_path / "race.sqlite") as results:
        first = entry(tmp_path, target=1e9)
        results.begin([first], [named("adamw")], RULES)
        results.set_workload("tiny", problem="already met")
        results.begin([entry(tmp_path)], [named("lion")], replace(RULES, seed=1))
        assert [c.name for c in results.contestants()] == ["lion"] and results.rules().seed == 1
        about = results.workloads()["tiny"]
        assert (about["target"], about["problem"]) == (4.0, None)


def test_a_file_that_was_edited_since_is_told(begun: Path, tmp_path: Path) -> None:
    with Results(begun) as results:
        same = entry(tmp_path)
        results.begin([same], [named("adamw")], RULES)
        assert resume.changed_files(results, resume.workload_files([same])) == []
        edited = entry(tmp_path, in_loss="    batch = batch\n")
        results.begin([edited], [named("adamw")], RULES)
        (line,) = resume.changed_files(results, resume.workload_files([edited]))
        assert line.startswith(f"{tmp_path / 'tiny.py'} has changed since this race began") and "--results" in line
        assert resume.workload_files([Entry("rosenbrock", load("rosenbrock"))]) == {}


def test_remarks_do_not_replace_each_other(begun: Path) -> None:
    with Results(begun) as results:
        for note in ("not deterministic", "its study has a faster trial", "not deterministic"):
            results.remark(1, note)
        assert results.rows()[0].note == "not deterministic; its study has a faster trial"


def test_two_racers_on_one_file_are_refused(begun: Path) -> None:
    with Results(begun), pytest.raises(StoreError, match="another process is writing"):
        Results(begun)


def test_a_link_to_the_file_is_the_same_file(begun: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(begun)
    with Results(begun), pytest.raises(StoreError, match=r"link\.sqlite: another process is writing"):
        Results(link)
    with Results(link), pytest.raises(StoreError, match=r"race\.sqlite: another process is writing"):
        Results(begun)
    assert not list(tmp_path.rglob("*.lock"))


def test_a_race_that_has_ended_makes_room_when_asked_to(begun: Path, tmp_path: Path) -> None:
    with Results(begun) as results:
        results.make_room([entry(tmp_path)])
        assert len(results.rows()) == 4, "it has not ended"
        for row in results.rows():
            results.end(row.id, End("reached"))
        with pytest.raises(StoreError, match=r"holds a race on tiny that has ended and --anew would remove; name"):
            results.make_room([entry(tmp_path, name="other")])
        assert len(results.rows()) == 4
        results.start_run({}, [])
        results.make_room([entry(tmp_path), entry(tmp_path, name="other")])
        assert results.store.rows("select * from run") == []
        assert results.rows() == [] and results.settings() == {}


def test_it_can_be_read_while_it_is_written(begun: Path) -> None:
    with Results(begun), Results(begun, writable=False) as reader:
        assert len(reader.rows()) == 4


def test_a_newer_format_is_refused(begun: Path) -> None:
    database = sqlite3.connect(begun)
    database.execute("pragma user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer fallline"):
        Results(begun)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written"):
        Results(tmp_path / "race.sqlite")


def test_an_evaluation_is_stored_once_and_another_value_is_noticed(begun: Path) -> None:
    event = Evaluation(10, 0.5, 0.4, training=1.0)
    with Results(begun) as results:
        assert results.add_evaluation(1, event, reached=True)
        assert results.add_evaluation(1, replace(event, training=2.0), reached=True)
        assert not results.add_evaluation(1, replace(event, value=0.6), reached=False)
        assert results.evaluations(1) == [(10, 0.5, 1.0)]
        (row, *_) = results.rows()
        assert (row.steps_to_target, row.seconds_to_target) == (10, 1.0)


# ------------------------------------------------------------------ formats

FIRST_FORMAT = """
create table setting (name text primary key, value text not null);
create table workload (
    name text primary key, spec text not null, facts text not null, changes text not null,
    target real, target_from text, untrained real, problem text
);
create table contestant (name text primary key, definition text not null);
create table calibration (
    workload text not null references workload, contestant text not null references contestant,
    step_seconds real not null, low real not null, high real not null, switch_seconds real not null,
    state_bytes integer not null, parameter_bytes integer not null, peak_bytes integer,
    samples text not null, machine text not null, taken real not null,
    primary key (workload, contestant)
);
create table trial (
    id integer primary key, kind text not null, workload text not null references workload,
    contestant text not null references contestant, study integer not null, number integer not null,
    seed integer not null, point text not null, max_steps integer, status text, steps integer,
    steps_to_target integer, seconds_to_target real, training_seconds real, evaluation_seconds real,
    attempts integer not null default 0, note text, ended real,
    unique (kind, workload, contestant, study, number)
);
create table evaluation (
    trial integer not null references trial, step integer not null, value real, loss real,
    training_seconds real not null, at real not null,
    primary key (trial, step)
) without rowid;
"""


@pytest.fixture
def of_the_first_format(begun: Path, tmp_path: Path) -> Path:
    """The race that has begun, as it was written before there were runs."""
    with Results(begun) as results:
        results.set_calibration("tiny", {"adamw": Calibrated(0.5, 0.4, 0.6, 0.0, 8, 4, None)}, {}, {})
    path = tmp_path / "first.sqlite"
    database = sqlite3.connect(path)
    database.executescript(
        f"{FIRST_FORMAT} pragma journal_mode = wal; pragma application_id = {SCHEMA.application_id};"
    )
    database.execute("attach ? as new", (str(begun),))
    for (table,) in database.execute("select name from main.sqlite_master where type = 'table'").fetchall():
        columns = [row[1] for row in database.execute(f"pragma main.table_info({table})")]
        given = ["'[0.5, 0.6, 0.4]'" if column == "samples" else column for column in columns]
        database.execute(f"insert into main.{table} select {', '.join(given)} from new.{table}")
    database.execute("delete from setting where name = 'seconds'")
    database.execute("pragma main.user_version = 1")
    database.commit()
    database.close()
    return path


def test_a_file_of_the_first_format_is_read_as_it_is(of_the_first_format: Path, begun: Path, tmp_path: Path) -> None:
    before = of_the_first_format.read_bytes()
    with Results(begun, writable=False) as new, Results(of_the_first_format, writable=False) as old:
        assert old.rows() == new.rows() and old.rules() == new.rules() == RULES
        assert old.calibration() == new.calibration()
        assert old.sessions("tiny") == [Session({"adamw": Rounds([0.5, 0.6, 0.4], [])}, {}, "was not measured")]
        written = {path.stem: path.read_text() for path in export(old, tmp_path / "tables", "csv")}
    assert written["first-runs"].splitlines() == ["started,ended,machine,command"]
    assert len(written["first-trials"].splitlines()) == 5
    names, *samples = (line.split(",")[:7] for line in written["first-step_samples"].splitlines())
    assert names == ["session", "workload", "contestant", "part", "round", "wall", "cpu"]
    assert [sample[3:] for sample in samples] == [["step", str(at), str(t), ""] for at, t in enumerate((0.5, 0.6, 0.4))]
    assert of_the_first_format.read_bytes() == before


def test_a_file_of_the_first_format_goes_on_and_keeps_its_rows(of_the_first_format: Path, tmp_path: Path) -> None:
    with Results(of_the_first_format, writable=False) as old:
        rows, costs = old.rows(), old.calibration()
    with Results(of_the_first_format) as results:
        results.begin([entry(tmp_path)], [named("adamw")], RULES)
        assert results.rows() == rows and results.calibration() == costs
        results.end_run(results.start_run({"cpu": "any"}, ["race"]))
        with pytest.raises(StoreError, match=r"holds a race with no seconds, not 60"):
            results.begin([entry(tmp_path)], [named("adamw")], replace(RULES, seconds=60.0))
    with Results(of_the_first_format, writable=False) as results:
        (run,) = results.store.rows("select * from run")
        assert (run["machine"], run["command"]) == ('{"cpu": "any"}', '["race"]') and run["started"] <= run["ended"]


# ------------------------------------------------------------------ before the trials


def test_what_a_race_does_before_its_trials_can_be_read(tmp_path: Path) -> None:
    without, rules = entry(tmp_path, target=None), replace(RULES, studies=1)
    with Results(tmp_path / "race.sqlite") as results:
        results.begin([without], [named("adamw")], rules)
        results.add_trials(trials([without], [named("adamw")], rules))
        assert phase(results) == "checking tiny"
        assert summarize(results).verdict.startswith("The race has not ended: checking tiny; ")
        results.set_workload("tiny", untrained=9.0)
        assert phase(results) == "measuring steps on tiny"
        results.set_calibration("tiny", {"adamw": Calibrated(0.5, 0.4, 0.6, 0.0, 8, 4, None)}, {}, {})
        assert phase(results) is None, "trials are next"
        results.add_trials(target_trials(without, named("adamw"), rules))
        first, _ = results.rows(TARGET)
        results.start(first.id, 80)
        results.end(first.id, End("ended"))
        assert phase(results) == "setting the target of tiny: 1 of 2 trials have ended"
        results.set_workload("tiny", target=1.0)
        assert phase(results) is None
        results.begin([without], [named("adamw"), named("lion")], rules)
        results.add_trials(trials([without], [named("adamw"), named("lion")], rules))
        assert phase(results) == "measuring steps on tiny", "of who has joined"
        for row in results.rows():
            results.end(row.id, End("reached"))
        assert phase(results) is None


def test_nothing_is_planned_any_more_on_a_workload_that_is_left_out(begun: Path) -> None:
    with Results(begun) as results:
        results.leave_out("tiny", "tiny: does not work")
        assert [row.attempts for row in results.rows()] == [1], "what began stays"
        assert results.workloads()["tiny"]["problem"] == "tiny: does not work"


# ------------------------------------------------------------------ two files whose workloads have one name


def test_two_files_whose_workloads_have_one_name_do_not_share_a_race(tmp_path: Path) -> None:
    one, two, moved = (tmp_path / name for name in ("one", "two", "moved"))
    for folder in (one, two, moved):
        folder.mkdir()
    first, second = entry(one), entry(two, in_loss="    batch = batch\n")
    path = default_path([first], tmp_path)
    assert path == tmp_path / "race-tiny.sqlite"
    with Results(path) as results:
        results.begin([first], [named("adamw")], RULES)
        results.add_trials(trials([first], [named("adamw")], RULES))
        results.start(1, 120)
        said = rf"holds a race on tiny of {first.spec}, not of {second.spec}; name another file with --results"
        with pytest.raises(StoreError, match=said):
            results.begin([second], [named("adamw")], RULES)
        results.begin([entry(moved)], [named("adamw")], RULES)
    assert default_path([first], tmp_path) == default_path([entry(moved)], tmp_path) == path
    other = default_path([second], tmp_path)
    assert other.parent == tmp_path and other.name.startswith("race-tiny-") and other.suffix == ".sqlite"
    assert default_path([second], tmp_path) == other, "the same command goes on with it"
    path.write_text("not a results file")
    assert default_path([second], tmp_path) == path, "whoever opens it says what is wrong with it"


def test_a_file_with_a_damaged_entry_is_told_in_one_line(begun: Path) -> None:
    database = sqlite3.connect(begun)
    database.execute("update trial set point = 'cut of'")
    database.commit()
    database.close()
    with Results(begun, writable=False) as results, pytest.raises(StoreError, match="a damaged results file") as error:
        summarize(results)
    assert "\n" not in str(error.value)
