"""The results file of a race: one SQLite file in which every evaluation is written when it happens."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fallline.measure.store import Schema, Store, StoreError
from fallline.race.contestants import Contestant
from fallline.race.plan import RACE, Entry, Rules, Trial

SCHEMA = Schema(
    name="race results",
    application_id=0x466C5263,
    version=1,
    statements="""
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
""",
)


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
class Calibrated:
    """What a step costs on one thread, measured apart from the trials."""

    step_seconds: float
    low: float
    high: float
    switch_seconds: float
    """To averaged weights and back, once per evaluation."""
    state_bytes: int
    parameter_bytes: int
    peak_bytes: int | None


_TRIAL_COLUMNS = ", ".join(field.name for field in dataclasses.fields(Row))


class Results:
    """An open results file."""

    def __init__(self, path: Path, *, writable: bool = True):
        self.path = path
        self.store = Store(path, SCHEMA, writable=writable)

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
        stored = self.settings()
        if stored:
            self._check(stored, entries, contestants, rules)
        with self.store.transaction() as database:
            for name, value in {**rules.fixed(), "tau_max": rules.tau_max}.items():
                database.execute("insert or replace into setting values (?, ?)", (name, json.dumps(value)))
            database.execute("insert or replace into setting values ('studies', ?)", (json.dumps(rules.studies),))
            for entry in entries:
                database.execute(
                    "insert or ignore into workload (name, spec, facts, changes, target, target_from)"
                    " values (?, ?, ?, ?, ?, ?)",
                    (
                        entry.name,
                        entry.spec,
                        json.dumps(entry.facts()),
                        json.dumps(dict(entry.changes)),
                        entry.workload.target,
                        None if entry.workload.target is None else "given",
                    ),
                )
            for contestant in contestants:
                database.execute(
                    "insert or ignore into contestant values (?, ?)",
                    (contestant.name, json.dumps(contestant.definition(), sort_keys=True)),
                )

    def _check(
        self, stored: Mapping[str, Any], entries: list[Entry], contestants: list[Contestant], rules: Rules
    ) -> None:
        remedy = "name another file with --results"
        for name, value in rules.fixed().items():
            if stored.get(name) != value:
                raise StoreError(
                    f"{self.path}: holds a race with {name} = {stored.get(name)!r}, not {value!r}; "
                    f"give the same command to go on, or {remedy}"
                )
        if rules.studies < stored.get("studies", 0):
            raise StoreError(
                f"{self.path}: holds a race of {stored['studies']} studies, not {rules.studies}; "
                f"studies may become more, not fewer, or {remedy}"
            )
        known = {row["name"]: row for row in self.store.rows("select * from workload")}
        for entry in entries:
            row = known.pop(entry.name, None)
            if row is None:
                continue
            facts = json.loads(row["facts"])
            differing = [k for k, v in entry.facts().items() if facts.get(k) != v]
            if differing:
                key = differing[0]
                raise StoreError(
                    f"{self.path}: {entry.name} had {key} = {facts.get(key)!r}, now {entry.facts()[key]!r}; {remedy}"
                )
            if row["target_from"] == "given" and row["target"] != entry.workload.target:
                raise StoreError(
                    f"{self.path}: {entry.name} had the target {row['target']:g}, now {entry.workload.target}; {remedy}"
                )
        if known:
            wanted = ", ".join(entry.name for entry in entries)
            raise StoreError(f"{self.path}: holds a race on {', '.join(known)}; this one is on {wanted}; {remedy}")
        definitions = {row["name"]: row["definition"] for row in self.store.rows("select * from contestant")}
        for contestant in contestants:
            old = definitions.pop(contestant.name, None)
            if old is not None and json.loads(old) != json.loads(json.dumps(contestant.definition())):
                raise StoreError(f"{self.path}: {contestant.name} was defined otherwise; {remedy}")
        if definitions:
            raise StoreError(f"{self.path}: holds {', '.join(definitions)} too; add them with --optimizer, or {remedy}")

    def settings(self) -> dict[str, Any]:
        return {row["name"]: json.loads(row["value"]) for row in self.store.rows("select * from setting")}

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
        )

    def workloads(self) -> dict[str, dict[str, Any]]:
        """Name → facts, target, where the target is from, problem."""
        found = {}
        for row in self.store.rows("select * from workload order by rowid"):
            found[row["name"]] = {**dict(row), "facts": json.loads(row["facts"])}
        return found

    def set_workload(self, name: str, **values: Any) -> None:
        assignments = ", ".join(f"{column} = ?" for column in values)
        with self.store.transaction() as database:
            database.execute(f"update workload set {assignments} where name = ?", (*values.values(), name))

    def contestants(self) -> list[str]:
        return [row["name"] for row in self.store.rows("select name from contestant order by rowid")]

    # ------------------------------------------------------------------ calibration

    def calibration(self) -> dict[tuple[str, str], Calibrated]:
        names = [field.name for field in dataclasses.fields(Calibrated)]
        return {
            (row["workload"], row["contestant"]): Calibrated(**{name: row[name] for name in names})
            for row in self.store.rows("select * from calibration")
        }

    def set_calibration(
        self, workload: str, found: Mapping[str, Calibrated], samples: Mapping[str, Any], machine: Mapping[str, Any]
    ) -> None:
        """All contestants of a workload at once: they were measured side by side."""
        with self.store.transaction() as database:
            for contestant, cost in found.items():
                database.execute(
                    "insert or replace into calibration values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        workload,
                        contestant,
                        *dataclasses.astuple(cost),
                        json.dumps(samples.get(contestant)),
                        json.dumps(machine),
                        time.time(),
                    ),
                )

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

    def rows(self, kind: str = RACE) -> list[Row]:
        found = self.store.rows(f"select {_TRIAL_COLUMNS} from trial where kind = ? order by id", (kind,))
        return [Row(**{**dict(row), "point": json.loads(row["point"])}) for row in found]

    def start(self, trial: int, max_steps: int) -> int:
        """Counts an attempt; returns the last step whose evaluation is stored."""
        with self.store.transaction() as database:
            database.execute("update trial set attempts = attempts + 1, max_steps = ? where id = ?", (max_steps, trial))
        (row,) = self.store.rows("select max(step) as last from evaluation where trial = ?", (trial,))
        return int(row["last"] or 0)

    def add_evaluation(self, trial: int, event: Mapping[str, Any], reached: bool) -> bool:
        """Stores an evaluation; one that is there already stays.  False if it was another value: not deterministic."""
        with self.store.transaction() as database:
            old = database.execute(
                "select value from evaluation where trial = ? and step = ?", (trial, event["step"])
            ).fetchone()
            if old is not None:
                return bool(old["value"] == event["value"])
            database.execute(
                "insert into evaluation values (?, ?, ?, ?, ?, ?)",
                (trial, event["step"], event["value"], event["loss"], event["training"], time.time()),
            )
            if reached:
                database.execute(
                    "update trial set steps_to_target = ?, seconds_to_target = ?"
                    " where id = ? and steps_to_target is null",
                    (event["step"], event["training"], trial),
                )
        return True

    def end(self, trial: int, status: str, event: Mapping[str, Any], note: str | None = None) -> None:
        with self.store.transaction() as database:
            database.execute(
                "update trial set status = ?, steps = ?, training_seconds = ?, evaluation_seconds = ?,"
                " note = coalesce(?, note), ended = ? where id = ?",
                (
                    status,
                    event.get("step"),
                    event.get("training"),
                    event.get("evaluation"),
                    note,
                    time.time(),
                    trial,
                ),
            )

    def remark(self, trial: int, note: str) -> None:
        with self.store.transaction() as database:
            database.execute("update trial set note = ? where id = ?", (note, trial))

    def evaluations(self, trial: int) -> list[tuple[int, float | None, float]]:
        rows = self.store.rows(
            "select step, value, training_seconds from evaluation where trial = ? order by step", (trial,)
        )
        return [(row["step"], row["value"], row["training_seconds"]) for row in rows]
