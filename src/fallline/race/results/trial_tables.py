"""The trials of a race and their evaluations, as they are stored."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from fallline.race.engine.messages import End, Evaluation
from fallline.race.plan import RACE, Trial
from fallline.race.results.tables import Tables


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


_TRIAL_COLUMNS = ", ".join(field.name for field in dataclasses.fields(Row))


class TrialTables(Tables):
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
        return [Row(**{**dict(row), "point": self.parsed(row["point"])}) for row in found]

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

    def drop_trials(self, trials: Iterable[int]) -> None:
        """Trials that began ahead of their round and are not needed."""
        with self.store.transaction() as database:
            for trial in trials:
                database.execute("delete from evaluation where trial = ?", (trial,))
                database.execute("delete from trial where id = ?", (trial,))
