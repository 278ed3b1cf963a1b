"""The results file of ``fallline step``: runs, cells, arms, raw samples."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.measure import machine, runs
from fallline.measure.store import Schema, Store
from fallline.step.plan import Cell

SCHEMA = Schema(
    "step results",
    0x666C7374,
    1,
    runs.TABLE
    + """
create table cell (
    id integer primary key,
    key text not null unique,
    run integer not null references run (id),
    measured text not null,
    label text not null,
    specification text not null,
    facts text not null
);
create table arm (
    cell integer not null references cell (id),
    name text not null,
    missing text,
    facts text not null,
    primary key (cell, name)
) without rowid;
create table sample (
    cell integer not null,
    arm text not null,
    round integer not null,
    seconds real not null,
    primary key (cell, arm, round)
) without rowid;
create table memory (
    key text primary key,
    run integer not null references run (id),
    measured text not null,
    facts text not null
) without rowid;
""",
)


@dataclasses.dataclass
class ArmRecord:
    """The measurements of one arm, or the reason why there are none."""

    name: str
    missing: str | None = None
    seconds: list[float] = dataclasses.field(default_factory=list)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    """first_seconds, calls, launches, bytes_moved, bytes_once, warm_up."""


@dataclasses.dataclass
class CellRecord:
    """The measurements of one cell."""

    cell: Cell
    arms: dict[str, ArmRecord]
    facts: dict[str, Any]
    """stopped, rounds, looks, working_set, probe, load; share: the cell's share of the machine, busy: why it was too
    small; wrong: findings of gates before or after timing; again: why the cell was measured a second time."""
    run: int = 0
    measured: str = ""


class Results:
    """Reads and writes records; every cell is one transaction."""

    def __init__(self, path: Path, *, writable: bool = True):
        self.store = Store(path, SCHEMA, writable=writable)
        self.run: int | None = None

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def begin(self, command: dict[str, Any]) -> None:
        """Records this run's circumstances; refuses a file of another machine or of other versions."""
        here = machine.describe()
        runs.refuse_another_machine(self.store, here)
        with self.store.transaction() as database:
            self.run = runs.add_run(database, command, here)

    def machines(self, records: Sequence[CellRecord]) -> list[dict[str, Any]]:
        """Circumstances of the runs that these records come from, oldest first."""
        runs = {record.run for record in records}
        return [
            json.loads(row["machine"])
            for row in self.store.rows("select id, machine from run order by id")
            if row["id"] in runs
        ]

    def done(self, cells: Sequence[Cell]) -> set[str]:
        """The keys of cells that need not be measured again."""
        known = {row["key"] for row in self.store.rows("select key from cell")}
        return known & {cell.key for cell in cells}

    def forget(self, cells: Sequence[Cell]) -> None:
        """Removes cells, so that they are measured again."""
        with self.store.transaction() as database:
            for cell in cells:
                _delete(database, cell)

    def put(self, record: CellRecord) -> None:
        """Stores a record in place of an earlier one of the same cell."""
        specification = json.dumps(dataclasses.asdict(record.cell), default=str)
        with self.store.transaction() as database:
            _delete(database, record.cell)
            added = database.execute(
                "insert into cell (key, run, measured, label, specification, facts) values (?, ?, ?, ?, ?, ?)",
                (record.cell.key, self.run, runs.now(), record.cell.label, specification, json.dumps(record.facts)),
            )
            number = added.lastrowid
            for arm in record.arms.values():
                database.execute(
                    "insert into arm (cell, name, missing, facts) values (?, ?, ?, ?)",
                    (number, arm.name, arm.missing, json.dumps(arm.facts)),
                )
                database.executemany(
                    "insert into sample (cell, arm, round, seconds) values (?, ?, ?, ?)",
                    [(number, arm.name, at * arm.facts.get("every", 1), s) for at, s in enumerate(arm.seconds)],
                )

    def load(self, cells: Sequence[Cell]) -> list[CellRecord]:
        """The records of the stored cells, in the order asked for."""
        found = []
        for cell in cells:
            rows = self.store.rows("select id, run, measured, facts from cell where key = ?", (cell.key,))
            if rows:
                row = rows[0]
                facts = json.loads(row["facts"])
                found.append(CellRecord(cell, self._arms(row["id"]), facts, row["run"], row["measured"]))
        return found

    def _arms(self, number: int) -> dict[str, ArmRecord]:
        found = {
            row["name"]: ArmRecord(row["name"], row["missing"], [], json.loads(row["facts"]))
            for row in self.store.rows("select name, missing, facts from arm where cell = ?", (number,))
        }
        for row in self.store.rows("select arm, seconds from sample where cell = ? order by arm, round", (number,)):
            found[row["arm"]].seconds.append(row["seconds"])
        return found

    def add_memory(self, key: str, facts: dict[str, Any]) -> None:
        with self.store.transaction() as database:
            database.execute(
                "insert or replace into memory (key, run, measured, facts) values (?, ?, ?, ?)",
                (key, self.run, runs.now(), json.dumps(facts)),
            )

    def forget_memory(self) -> None:
        with self.store.transaction() as database:
            database.execute("delete from memory")

    def memory(self) -> dict[str, dict[str, Any]]:
        return {row["key"]: json.loads(row["facts"]) for row in self.store.rows("select key, facts from memory")}


def _delete(database: sqlite3.Connection, cell: Cell) -> None:
    for row in database.execute("select id from cell where key = ?", (cell.key,)).fetchall():
        database.execute("delete from sample where cell = ?", (row["id"],))
        database.execute("delete from arm where cell = ?", (row["id"],))
        database.execute("delete from cell where id = ?", (row["id"],))


def data_id(records: Sequence[CellRecord], memory: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """A name for the samples and figures of memory behind a conclusion; different data has a different name."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(record.cell.key.encode())
        for name in sorted(record.arms):
            digest.update(json.dumps([name, record.arms[name].seconds]).encode())
    if memory:
        digest.update(json.dumps(memory, sort_keys=True).encode())
    return digest.hexdigest()[:10]
