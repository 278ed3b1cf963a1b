"""The costs of steps, and the sessions in which they were measured."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping
from typing import Any

from fallline.race.clock.calibrated import Calibrated
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.plan import RACE
from fallline.race.results.tables import Tables

_STEP, _SWITCH = "step", "switch"
"""Parts of training whose samples are stored."""


class StepTables(Tables):
    def calibration(self) -> dict[tuple[str, str], Calibrated]:
        names = [field.name for field in dataclasses.fields(Calibrated)]
        found = {}
        for row in self.store.rows("select * from calibration"):
            cost = Calibrated(**{name: row[name] for name in names})
            with self.readable("a step time of it is no time"):
                if not 0.0 < cost.low <= cost.step_seconds <= cost.high < math.inf:
                    raise ValueError(cost)
            found[row["workload"], row["contestant"]] = cost
        return found

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
                self.forget_sessions(database, workload)
            for session in sessions:
                self._add_session(database, workload, session, json.dumps(machine))
            for contestant, cost in found.items():
                database.execute(
                    "insert or replace into calibration values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (workload, contestant, *dataclasses.astuple(cost), json.dumps(machine), time.time(), scale),
                )

    @staticmethod
    def forget_sessions(database: sqlite3.Connection, workload: str) -> None:
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
                with self.readable("a sample of it is no time"):
                    if part == _STEP and min(sample["wall"] for sample in own) <= 0.0:
                        raise ValueError(contestant)
                cpu = [sample["cpu"] for sample in own if sample["cpu"] is not None]
                parts[part][contestant] = Rounds([sample["wall"] for sample in own], cpu)
            found.append(Session(parts[_STEP], parts[_SWITCH], row["cpu_obstacle"]))
        return found
