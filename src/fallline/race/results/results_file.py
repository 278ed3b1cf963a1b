"""The results file of a race: one SQLite file in which every evaluation is written when it happens."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.measure.store import Store, StoreError
from fallline.race.clock.calibrated import Calibrated
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.contestants import Contestant
from fallline.race.engine.messages import End, Evaluation
from fallline.race.plan import FIXED, RACE, Entry, Rules, Trial, reference_of
from fallline.race.results import resume
from fallline.race.results.schema import SCHEMA

ENDED_BY, SECONDS_USED = "ended by", "seconds used"
"""Settings of a race in rounds that has ended."""


@dataclasses.dataclass
class Row:
    """A trial as it is stored."""

    id: int
    kind: str
    workload: str
    contestant: str
    study: int
    number: int
    seed: int
    point: dict[str, Any]
    max_steps: int | None
    status: str | None
    """None while it is to run, or running."""
    steps: int | None
    steps_to_target: int | None
    seconds_to_target: float | None
    """On the raw clock of the process that ran it."""
    training_seconds: float | None
    evaluation_seconds: float | None
    attempts: int
    note: str | None


@dataclasses.dataclass(frozen=True)
class Run:
    """A time during which trials ran."""

    started: float
    ended: float | None
    """None of one that goes on, or was interrupted."""
    machine: dict[str, Any]
    command: list[str]
    """The arguments of the command line; none where it was no command line that ran it."""


_ALL_TABLES = (
    "look",
    "run",
    "evaluation",
    "trial",
    "sample",
    "session",
    "calibration",
    "contestant",
    "workload",
    "setting",
)
"""In an order in which they can be emptied: rows go before the rows that they refer to."""
_STEP, _SWITCH = "step", "switch"
"""Parts of training whose samples are stored."""
_TRIAL_COLUMNS = ", ".join(field.name for field in dataclasses.fields(Row))


class Results:
    """An open results file."""

    def __init__(self, path: Path, *, writable: bool = True):
        self.path = path
        self.store = Store(path, SCHEMA, writable=writable)
        # Workers wait until an evaluation is written, but not for the disk: rows survive kill -9 all the same, and the
        # last ones that a loss of power takes away are computed again.
        self.store.rows("pragma synchronous = normal")

    @property
    def checkpoints(self) -> Path:
        """The folder beside it; empty once a race has ended."""
        return self.path.with_name(self.path.name + ".checkpoints")

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ what is raced

    def begin(self, entries: Iterable[Entry], contestants: Iterable[Contestant], rules: Rules) -> None:
        """Writes what is raced, or checks that it is what the file already holds; more may be added."""
        entries, contestants = list(entries), list(contestants)
        self._forget_failed_targets(entries)
        begun = self.begun_workloads()
        if begun:
            resume.check(self, entries, contestants, rules)
        elif self.settings() and not resume.is_same(self, entries, contestants, rules):
            self._clear()
        lasting = {"tau_max": rules.tau_max, "reference": self.reference(contestants)}
        with self.store.transaction() as database:
            database.execute("delete from setting where name = ?", (ENDED_BY,))
            for name, value in {**rules.fixed(), **rules.ending(), **lasting}.items():
                database.execute("insert or replace into setting values (?, ?)", (name, json.dumps(value)))
            database.execute("insert or replace into setting values ('studies', ?)", (json.dumps(rules.studies),))
            new = [entry for entry in entries if entry.name not in begun]
            for name, digest in resume.digests(resume.workload_files(new)).items():
                database.execute("insert or replace into setting values (?, ?)", (name, json.dumps(digest)))
            for name, digest in resume.digests(resume.optimizer_files(contestants)).items():
                kept = "ignore" if begun else "replace"  # before the first trial a file may still be mended
                database.execute(f"insert or {kept} into setting values (?, ?)", (name, json.dumps(digest)))
            for entry in new:
                self._write_workload(database, entry)
            for contestant in contestants:
                database.execute(
                    "insert or ignore into contestant values (?, ?)",
                    (contestant.name, json.dumps(contestant.definition(), sort_keys=True)),
                )

    def _forget_failed_targets(self, entries: Iterable[Entry]) -> None:
        """Removes runs that should have set a target and did not, so that a mended workload begins anew."""
        known, raced = self.workloads(), {row.workload for row in self.rows() if row.attempts}
        for name in {entry.name for entry in entries} & set(known) - raced:
            if not known[name]["problem"] or known[name]["target"] is not None:
                continue
            with self.store.transaction() as database:
                trials = "select id from trial where workload = ?"
                database.execute(f"delete from evaluation where trial in ({trials})", (name,))
                self._forget_sessions(database, name)
                for table in ("trial", "calibration"):
                    database.execute(f"delete from {table} where workload = ?", (name,))

    def make_room(self, entries: Iterable[Entry]) -> None:
        """Removes a finished race, as ``--anew`` asks for; an unfinished one goes on.

        A finished one on workloads that are not raced now is refused: whoever names the file may not know that it is
        taken.
        """
        known, wanted = self.workloads(), {entry.name for entry in entries}
        rows = [row for row in self.rows() if known[row.workload]["problem"] is None]
        if not rows or (self.ended_by is None and any(row.status is None for row in rows)):
            return
        others = [name for name in known if name not in wanted]
        if others:
            raise StoreError(
                f"{self.path}: holds a race on {', '.join(others)} that has ended and --anew would remove; "
                f"{resume.REMEDY}"
            )
        self._clear()

    def _clear(self) -> None:
        """A race that ended before its first trial is no reason to refuse another one."""
        with self.store.transaction() as database:
            for table in _ALL_TABLES:
                database.execute(f"delete from {table}")

    @staticmethod
    def _write_workload(database: sqlite3.Connection, entry: Entry) -> None:
        """Nothing was run on it yet, so whatever is there may be replaced, for instance a target that was too easy."""
        source = None if entry.workload.target is None else "given"
        facts, changes = json.dumps(entry.facts()), json.dumps(dict(entry.changes))
        database.execute(
            "insert into workload (name, spec, facts, changes, target, target_from) values (?, ?, ?, ?, ?, ?)"
            " on conflict (name) do update set spec = excluded.spec, facts = excluded.facts,"
            " changes = excluded.changes, target = excluded.target, target_from = excluded.target_from,"
            " untrained = null, problem = null",
            (entry.name, entry.spec, facts, changes, entry.workload.target, source),
        )

    def leave_out(self, name: str, problem: str) -> None:
        """A workload that cannot be raced: what was measured on it stays, what did not begin is no longer planned."""
        with self.store.transaction() as database:
            database.execute("update workload set problem = ? where name = ?", (problem, name))
            database.execute("delete from trial where workload = ? and status is null and attempts = 0", (name,))

    def begun_workloads(self) -> set[str]:
        """Those on which a trial was started."""
        return {row["workload"] for row in self.store.rows("select distinct workload from trial where attempts > 0")}

    def reference(self, contestants: Sequence[Contestant]) -> str:
        """The name of a race's reference: once a trial has begun, that of the contestants it began with."""
        if not self.begun_workloads():
            return reference_of(contestants).name
        return str(self.settings().get("reference") or reference_of(self.contestants()).name)

    def settings(self) -> dict[str, Any]:
        return {row["name"]: self._parsed(row["value"]) for row in self.store.rows("select * from setting")}

    def _parsed(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (TypeError, ValueError):
            raise StoreError(
                f"{self.path}: a damaged results file (a part of it is no JSON); restore a copy, or name another file"
            ) from None

    def rules(self) -> Rules:
        stored = self.settings()
        if not stored:
            raise StoreError(f"{self.path}: no race has begun in it")
        return Rules(
            ruleset=stored["ruleset"],
            trials=stored["trials"],
            studies=stored["studies"],
            seed=stored["seed"],
            self_factor=stored["self_factor"] or Rules.self_factor,
            clock=stored["clock"],
            early_stop=stored["early_stop"],
            tau_max=stored["tau_max"],
            seconds=stored.get("seconds"),  # files of before have none
            design=stored.get("design", FIXED),
            within=stored.get("within", Rules.within),
            until=stored.get("until"),
            minutes=stored.get("minutes"),
            minutes_after_a_look=stored.get("minutes_after_a_look"),
            search=stored.get("search") or 0,
            memory_budget=stored.get("memory_budget"),
        )

    def workloads(self) -> dict[str, dict[str, Any]]:
        """Name → spec, changes, facts, target, where the target is from, problem."""
        found = {}
        for row in self.store.rows("select * from workload order by rowid"):
            parsed = {"facts": self._parsed(row["facts"]), "changes": self._parsed(row["changes"])}
            found[row["name"]] = {**dict(row), **parsed}
        return found

    def set_workload(self, name: str, **values: Any) -> None:
        assignments = ", ".join(f"{column} = ?" for column in values)
        with self.store.transaction() as database:
            database.execute(f"update workload set {assignments} where name = ?", (*values.values(), name))

    def contestants(self) -> list[Contestant]:
        rows = self.store.rows("select * from contestant order by rowid")
        return [Contestant(row["name"], **self._parsed(row["definition"])) for row in rows]

    # ------------------------------------------------------------------ calibration

    def calibration(self) -> dict[tuple[str, str], Calibrated]:
        names = [field.name for field in dataclasses.fields(Calibrated)]
        return {
            (row["workload"], row["contestant"]): Calibrated(**{name: row[name] for name in names})
            for row in self.store.rows("select * from calibration")
        }

    def unmeasured(self, workload: str) -> set[str]:
        """Contestants with trials to run whose steps are not measured, or could not be taken."""
        rows = self.store.rows(
            "select distinct contestant from trial where kind = ? and workload = ? and status is null and contestant"
            " not in (select contestant from calibration where workload = ?)",
            (RACE, workload, workload),
        )
        return {row["contestant"] for row in rows}

    def set_calibration(
        self,
        workload: str,
        found: Mapping[str, Calibrated],
        sessions: Iterable[Session],
        machine: Mapping[str, Any],
        scale: float = 1.0,
        *,
        anew: bool = False,
    ) -> None:
        """The costs of these contestants' steps on a workload, and the sessions that were measured since the last time.

        ``scale`` is the factor by which costs were put on the clock of contestants measured before.  ``anew`` forgets
        all earlier sessions.
        """
        with self.store.transaction() as database:
            if anew:
                self._forget_sessions(database, workload)
            for session in sessions:
                self._add_session(database, workload, session, json.dumps(machine))
            for contestant, cost in found.items():
                database.execute(
                    "insert or replace into calibration values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (workload, contestant, *dataclasses.astuple(cost), json.dumps(machine), time.time(), scale),
                )

    @staticmethod
    def _forget_sessions(database: sqlite3.Connection, workload: str) -> None:
        sessions = "select id from session where workload = ?"
        database.execute(f"delete from sample where session in ({sessions})", (workload,))
        database.execute("delete from session where workload = ?", (workload,))

    @staticmethod
    def _add_session(database: sqlite3.Connection, workload: str, session: Session, machine: str) -> None:
        added = database.execute(
            "insert into session (workload, cpu_obstacle, machine, taken) values (?, ?, ?, ?)",
            (workload, session.obstacle, machine, time.time()),
        )
        for part, measured in ((_STEP, session.steps), (_SWITCH, session.switches)):
            for contestant, rounds in measured.items():
                times = itertools.zip_longest(rounds.wall, rounds.cpu)
                database.executemany(
                    "insert into sample values (?, ?, ?, ?, ?, ?)",
                    [(added.lastrowid, contestant, part, at, wall, cpu) for at, (wall, cpu) in enumerate(times)],
                )

    def sessions(self, workload: str) -> list[Session]:
        """Everything that was measured of steps on a workload, in the order of time."""
        found = []
        for row in self.store.rows("select * from session where workload = ? order by id", (workload,)):
            parts: dict[str, dict[str, Rounds]] = {_STEP: {}, _SWITCH: {}}
            samples = self.store.rows("select * from sample where session = ? order by round", (row["id"],))
            for contestant, part in dict.fromkeys((sample["contestant"], sample["part"]) for sample in samples):
                own = [sample for sample in samples if (sample["contestant"], sample["part"]) == (contestant, part)]
                cpu = [sample["cpu"] for sample in own if sample["cpu"] is not None]
                parts[part][contestant] = Rounds([sample["wall"] for sample in own], cpu)
            found.append(Session(parts[_STEP], parts[_SWITCH], row["cpu_obstacle"]))
        return found

    # ------------------------------------------------------------------ runs

    def start_run(self, machine: Mapping[str, Any], command: Sequence[str]) -> int:
        """Where, with which versions and by which arguments trials are run from now on."""
        with self.store.transaction() as database:
            values = (time.time(), json.dumps(machine), json.dumps(list(command)))
            added = database.execute("insert into run (started, machine, command) values (?, ?, ?)", values)
        assert added.lastrowid is not None
        return added.lastrowid

    def end_run(self, run: int) -> None:
        """Nothing is left to run; a run that was interrupted has no end."""
        with self.store.transaction() as database:
            database.execute("update run set ended = ? where id = ?", (time.time(), run))

    def runs(self) -> list[Run]:
        """The runs of the race, oldest first."""
        return [
            Run(row["started"], row["ended"], self._parsed(row["machine"]), self._parsed(row["command"]))
            for row in self.store.rows("select started, ended, machine, command from run order by id")
        ]

    def last_command(self) -> list[str]:
        """The arguments of the last run; none where it was no command line that ran it."""
        rows = self.store.rows("select command from run order by id desc limit 1")
        found = self._parsed(rows[0]["command"]) if rows else []
        return [str(word) for word in found] if isinstance(found, list) else []

    # ------------------------------------------------------------------ looks

    def add_look(self, number: int, studies: int, data: Mapping[str, Any]) -> None:
        """A look at complete rounds; it stays as it was taken, whatever is measured later."""
        with self.store.transaction() as database:
            database.execute("insert into look values (?, ?, ?, ?)", (number, studies, json.dumps(data), time.time()))

    def looks(self) -> list[dict[str, Any]]:
        """From the first one."""
        return [self._parsed(row["data"]) for row in self.store.rows("select data from look order by number")]

    @property
    def ended_by(self) -> str | None:
        """Why a race in rounds has ended; None while it runs, after an interruption, and in a fixed design."""
        found = self.settings().get(ENDED_BY)
        return None if found is None else str(found)

    def end_race(self, reason: str, seconds: float) -> None:
        """``seconds`` are those that all runs of the race have taken."""
        with self.store.transaction() as database:
            for name, value in ((ENDED_BY, reason), (SECONDS_USED, seconds)):
                database.execute("insert or replace into setting values (?, ?)", (name, json.dumps(value)))

    @property
    def seconds_used(self) -> float:
        """Up to the last look, or the end."""
        looks = self.looks()
        return max(float(self.settings().get(SECONDS_USED) or 0.0), float(looks[-1]["seconds_used"]) if looks else 0.0)

    def drop_trials(self, trials: Iterable[int]) -> None:
        """Trials that began ahead of their round and are not needed."""
        with self.store.transaction() as database:
            for trial in trials:
                database.execute("delete from evaluation where trial = ?", (trial,))
                database.execute("delete from trial where id = ?", (trial,))

    # ------------------------------------------------------------------ trials

    def add_trials(self, trials: Iterable[Trial]) -> None:
        """Those that are there already stay as they are."""
        with self.store.transaction() as database:
            for t in trials:
                database.execute(
                    "insert or ignore into trial (kind, workload, contestant, study, number, seed, point)"
                    " values (?, ?, ?, ?, ?, ?, ?)",
                    (t.kind, t.workload, t.contestant, t.study, t.number, t.seed, json.dumps(dict(t.point))),
                )

    def set_point(self, workload: str, contestant: str, point: Mapping[str, Any]) -> None:
        """The setting that its trials of the race run with, of those that have not begun."""
        with self.store.transaction() as database:
            database.execute(
                "update trial set point = ? where kind = ? and workload = ? and contestant = ? and attempts = 0",
                (json.dumps(dict(point)), RACE, workload, contestant),
            )

    def rows(self, kind: str = RACE) -> list[Row]:
        found = self.store.rows(f"select {_TRIAL_COLUMNS} from trial where kind = ? order by id", (kind,))
        return [Row(**{**dict(row), "point": self._parsed(row["point"])}) for row in found]

    def start(self, trial: int, max_steps: int) -> int:
        """Counts an attempt; returns the last step whose evaluation is stored."""
        with self.store.transaction() as database:
            database.execute("update trial set attempts = attempts + 1, max_steps = ? where id = ?", (max_steps, trial))
        (row,) = self.store.rows("select max(step) as last from evaluation where trial = ?", (trial,))
        return int(row["last"] or 0)

    def add_evaluation(self, trial: int, event: Evaluation, reached: bool) -> bool:
        """Stores an evaluation; one that is there already stays.  False if it was another value: not deterministic."""
        with self.store.transaction() as database:
            old = database.execute(
                "select value from evaluation where trial = ? and step = ?", (trial, event.step)
            ).fetchone()
            if old is not None:
                return bool(old["value"] == event.value)
            database.execute(
                "insert into evaluation values (?, ?, ?, ?, ?, ?)",
                (trial, event.step, event.value, event.loss, event.training, time.time()),
            )
            if reached:
                database.execute(
                    "update trial set steps_to_target = ?, seconds_to_target = ?"
                    " where id = ? and steps_to_target is null",
                    (event.step, event.training, trial),
                )
        return True

    def end(self, trial: int, event: End) -> None:
        with self.store.transaction() as database:
            database.execute(
                "update trial set status = ?, steps = ?, training_seconds = ?, evaluation_seconds = ?,"
                " note = coalesce(?, note), ended = ? where id = ?",
                (event.status, event.step, event.training, event.evaluation, event.note, time.time(), trial),
            )

    def remark(self, trial: int, note: str) -> None:
        """Adds to what is remarked already, once."""
        with self.store.transaction() as database:
            database.execute(
                "update trial set note = case when note is null then ?1 when instr(note, ?1) then note"
                " else note || '; ' || ?1 end where id = ?2",
                (note, trial),
            )

    def spent(self) -> tuple[float, float]:
        """Seconds of training and of evaluation, all trials together: those that set targets, run or crashed too.

        Of a trial that is running, or crashed, up to its last evaluation; how long that took is then not known.
        """
        (row,) = self.store.rows(
            "select total(coalesce(training_seconds, (select max(e.training_seconds) from evaluation e"
            " where e.trial = trial.id))) as training, total(evaluation_seconds) as evaluation from trial"
        )
        return row["training"], row["evaluation"]

    def has_values(self, trial: int) -> bool:
        """Whether any evaluation gave a number."""
        (row,) = self.store.rows("select count(value) as numbers from evaluation where trial = ?", (trial,))
        return bool(row["numbers"])

    def evaluations(self, trial: int) -> list[tuple[int, float | None, float]]:
        rows = self.store.rows(
            "select step, value, training_seconds from evaluation where trial = ? order by step", (trial,)
        )
        return [(row["step"], row["value"], row["training_seconds"]) for row in rows]

    def curves(self, kind: str = RACE) -> dict[int, list[tuple[int, float | None, float]]]:
        """Trial → its evaluations, of all trials of a kind: step, value, seconds of training so far."""
        found: dict[int, list[tuple[int, float | None, float]]] = {}
        for row in self.store.rows(
            "select trial, step, value, evaluation.training_seconds as seconds from evaluation"
            " join trial on trial.id = trial where kind = ? order by trial, step",
            (kind,),
        ):
            found.setdefault(row["trial"], []).append((row["step"], row["value"], row["seconds"]))
        return found
