"""The results file of a race: one SQLite file in which every evaluation is written when it happens."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.measure.store import Store, StoreError
from fallline.race.contestants import Contestant
from fallline.race.plan import CLOCKS, FIXED, RULESETS, Entry, Rules, reference_of
from fallline.race.plan.entries import FACTS
from fallline.race.results import resume
from fallline.race.results.run_tables import ENDED_BY, RunTables
from fallline.race.results.schema import SCHEMA
from fallline.race.results.step_tables import StepTables
from fallline.race.results.trial_tables import TrialTables

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


class Results(TrialTables, StepTables, RunTables):
    """An open results file: what is raced, and the tables of trials, of steps and of runs."""

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
                self.forget_sessions(database, name)
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

    def rules(self) -> Rules:
        stored = self.settings()
        if not stored:
            raise StoreError(f"{self.path}: no race has begun in it")
        with self.readable("its rules are incomplete"):
            return _sound(self._rules(stored))

    @staticmethod
    def _rules(stored: Mapping[str, Any]) -> Rules:
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
            parsed = {"facts": self.parsed(row["facts"]), "changes": self.parsed(row["changes"])}
            with self.readable(f"the facts of {row['name']} are incomplete"):
                _ = [parsed["facts"][name] for name in FACTS]
            found[row["name"]] = {**dict(row), **parsed}
        return found

    def set_workload(self, name: str, **values: Any) -> None:
        assignments = ", ".join(f"{column} = ?" for column in values)
        with self.store.transaction() as database:
            database.execute(f"update workload set {assignments} where name = ?", (*values.values(), name))

    def contestants(self) -> list[Contestant]:
        rows = self.store.rows("select * from contestant order by rowid")
        with self.readable("a contestant of it has no definition"):
            return [Contestant(row["name"], **self.parsed(row["definition"])) for row in rows]


def _sound(rules: Rules) -> Rules:
    numbers = (rules.trials, rules.studies, rules.seed, rules.self_factor, rules.tau_max, rules.within)
    known = rules.ruleset in RULESETS and rules.clock in CLOCKS
    if not known or not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(rules)
    return rules
