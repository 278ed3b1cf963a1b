"""The runs of a results file: when, by which command and on which machine."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from fallline.measure.store import Store, StoreError

TABLE = """
create table run (
    id integer primary key,
    started text not null,
    command text not null,
    machine text not null
);
"""
SAME_MACHINE = ("cpu", "architecture", "cores", "instruction_set", "versions")
"""Facts of two runs that must agree if one file is to hold both."""


def refuse_another_machine(store: Store, here: dict[str, Any]) -> None:
    """Refuses a file whose last run was on another machine, or with other versions."""
    for row in store.rows("select started, machine from run order by id desc limit 1"):
        before = json.loads(row["machine"])
        for fact in SAME_MACHINE:
            if before.get(fact) != here[fact]:
                raise StoreError(
                    f"{store.path}: measured on {row['started']} with {fact} {before.get(fact)}, here it is "
                    f"{here[fact]}; name another file with --out"
                )


def add_run(database: sqlite3.Connection, command: Any, here: dict[str, Any]) -> int | None:
    """The number of a new run."""
    return database.execute(
        "insert into run (started, command, machine) values (?, ?, ?)",
        (now(), json.dumps(command, default=str), json.dumps(here)),
    ).lastrowid


def now() -> str:
    """The time in UTC, as results files have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
