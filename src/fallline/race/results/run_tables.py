"""When and where a race ran, its looks, and how it ended."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.results.tables import Tables

ENDED_BY, SECONDS_USED = "ended by", "seconds used"
"""Settings of a race in rounds that has ended."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A time during which trials ran."""

    started: float
    ended: float | None
    """None of one that goes on, or was interrupted."""
    machine: dict[str, Any]
    command: list[str]
    """The arguments of the command line; none where it was no command line that ran it."""


class RunTables(Tables):
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
        rows = self.store.rows("select started, ended, machine, command from run order by id")
        return [
            Run(row["started"], row["ended"], self.parsed(row["machine"]), self.parsed(row["command"])) for row in rows
        ]

    def last_command(self) -> list[str]:
        """The arguments of the last run; none where it was no command line that ran it."""
        rows = self.store.rows("select command from run order by id desc limit 1")
        found = self.parsed(rows[0]["command"]) if rows else []
        return [str(word) for word in found] if isinstance(found, list) else []

    # ------------------------------------------------------------------ looks

    def add_look(self, number: int, studies: int, data: Mapping[str, Any]) -> None:
        """A look at complete rounds; it stays as it was taken, whatever is measured later."""
        with self.store.transaction() as database:
            database.execute("insert into look values (?, ?, ?, ?)", (number, studies, json.dumps(data), time.time()))

    def looks(self) -> list[dict[str, Any]]:
        """From the first one."""
        return [self.parsed(row["data"]) for row in self.store.rows("select data from look order by number")]

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
        """Up to the end, the last look, or the last evaluation of a run that was killed."""
        looks = self.looks()
        told = float(looks[-1]["seconds_used"]) if looks else 0.0
        return max(float(self.settings().get(SECONDS_USED) or 0.0), told, self._seconds_of_runs())

    def _seconds_of_runs(self) -> float:
        """From the start of each run to the last evaluation before the next one."""
        (row,) = self.store.rows(
            "with of_run as (select (select max(id) from run where started <= at) as run, max(at) as last"
            " from evaluation group by 1)"
            " select total(last - started) as seconds from of_run join run on run.id = of_run.run"
        )
        return float(row["seconds"])
