"""The results file of ``fallline profile``: cells, arms, every timed step, every loss."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.measure import machine, runs
from fallline.measure.store import Schema, Store, StoreError
from fallline.profile.plan import Counts, Plan
from fallline.profile.subject import Subject

SCHEMA = Schema(
    "profile results",
    0x666C7066,
    2,
    runs.TABLE
    + """
create table cell (
    id integer primary key,
    key text not null unique,
    place integer not null,
    plan text not null,
    counts text,
    subject text,
    facts text not null
);
create table arm (
    cell integer not null references cell (id),
    name text not null,
    status text,
    facts text not null,
    primary key (cell, name)
) without rowid;
create table block (
    cell integer not null references cell (id),
    repeat integer not null,
    block integer not null,
    run integer not null references run (id),
    measured text not null,
    facts text not null,
    primary key (cell, repeat, block)
) without rowid;
create table step (
    cell integer not null,
    repeat integer not null,
    block integer not null,
    arm text not null,
    step integer not null,
    timed integer not null,
    loss real,
    seconds text not null,
    primary key (cell, repeat, arm, step)
) without rowid;
create table evaluation (
    cell integer not null,
    repeat integer not null,
    arm text not null,
    step integer not null,
    value real,
    primary key (cell, repeat, arm, step)
) without rowid;
""",
    upgrades=("alter table cell add column subject text;",),
)
ALIKE = {
    "workload": "a profile of {}",
    "precision": "a profile in {}",
    "compiled": "a profile with compiled = {}",
    "device": "a profile on {}",
    "threads": "a profile on {} threads",
    "baseline": "a profile against {}",
    "seed": "a profile with seed {}",
}


@dataclasses.dataclass
class Step:
    """One step of one arm."""

    repeat: int
    block: int
    arm: str
    step: int
    timed: bool
    loss: float | None
    seconds: Mapping[str, float]
    """Phase → wall seconds; ``cpu.`` before a phase: CPU seconds of the process; faults, tokens, positions."""


@dataclasses.dataclass
class ArmFacts:
    status: str | None = None
    """Why it has no further samples: diverged, out of memory, raised; None if it ran to the end."""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def peak(self) -> int | None:
        """The most bytes in tensors from step 2 on."""
        found: int | None = self.facts.get("peak_bytes")
        return found


@dataclasses.dataclass
class CellRecord:
    """All that was stored of one cell."""

    plan: Plan
    counts: Counts | None
    facts: dict[str, Any]
    arms: dict[str, ArmFacts]
    blocks: dict[tuple[int, int], dict[str, Any]]
    """(repeat, block) → its circumstances."""
    steps: list[Step]
    evaluations: dict[tuple[int, str], list[tuple[int, float]]]
    """(repeat, arm) → (step, value of the metric)."""
    subject: Subject | None = None
    """None: an earlier fallline wrote the file."""

    @property
    def is_complete(self) -> bool:
        if self.counts is None or len(self.arms) < len(self.plan.arms):
            return False
        everybody_ended = all(arm.status is not None for arm in self.arms.values())
        return everybody_ended or len(self.blocks) == self.plan.repeats * self.counts.blocks

    @property
    def ended(self) -> dict[str, str]:
        """Arm → why it did not run to the end."""
        return {label: facts.status for label, facts in self.arms.items() if facts.status is not None}

    @property
    def parameters(self) -> int | None:
        """How many the model has; None before any arm was looked at."""
        found: int | None = next((a.facts["parameters"] for a in self.arms.values() if "parameters" in a.facts), None)
        return found

    def timed(self, arm: str) -> list[Step]:
        return [step for step in self.steps if step.arm == arm and step.timed]


class Results:
    """Reads and writes; a block of rounds is one transaction."""

    def __init__(self, path: Path, *, writable: bool = True):
        self.store = Store(path, SCHEMA, writable=writable)
        self.path = path
        self.run: int | None = None

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    # ------------------------------------------------------------------ writing

    def begin(self, plans: Sequence[Plan], command: Sequence[str]) -> None:
        """Records the run and its cells; refuses a file that holds something else."""
        here = machine.describe()
        runs.refuse_another_machine(self.store, here)
        self._check_plans(plans)
        with self.store.transaction() as database:
            self.run = runs.add_run(database, list(command), here)
            for place, plan in enumerate(plans):
                database.execute(
                    "insert or ignore into cell (key, place, plan, facts) values (?, ?, ?, '{}')",
                    (plan.key, place, json.dumps(plan.definition())),
                )

    def _check_plans(self, plans: Sequence[Plan]) -> None:
        stored = [Plan.defined(json.loads(row["plan"])) for row in self.store.rows("select plan from cell")]
        keys = {plan.key for plan in plans}
        for old in stored:
            if old.key in keys:
                continue
            new = plans[0]
            if old.axis or new.axis or old.preset != new.preset:
                raise StoreError(
                    f"{self.path}: holds {_named(old)}, not {_named(new)}; name another file with --out, or --fresh "
                    "begins anew"
                )
            for field, words in ALIKE.items():
                if getattr(old, field) != getattr(new, field):
                    raise StoreError(
                        f"{self.path}: holds {words.format(getattr(old, field))}, not of {getattr(new, field)}; name "
                        "another file with --out, or --fresh begins anew"
                    )
            raise StoreError(
                f"{self.path}: holds a profile of {', '.join(old.labels)} with other settings or counts; name another "
                "file with --out, or --fresh begins anew"
            )

    def forget(self) -> None:
        with self.store.transaction() as database:
            for table in ("evaluation", "step", "block", "arm", "cell"):
                database.execute(f"delete from {table}")

    def describe(self, plan: Plan, subject: Subject) -> None:
        """Stores the description of the workload in a cell that has none."""
        with self.store.transaction() as database:
            database.execute(
                "update cell set subject = ? where key = ? and subject is null",
                (json.dumps(subject.definition()), plan.key),
            )

    def set_counts(self, plan: Plan, counts: Counts) -> None:
        with self.store.transaction() as database:
            database.execute(
                "update cell set counts = ? where key = ?", (json.dumps(dataclasses.asdict(counts)), plan.key)
            )

    def add_facts(self, plan: Plan, **facts: Any) -> None:
        """Facts of a cell, beside those that it has."""
        with self.store.transaction() as database:
            row = database.execute("select facts from cell where key = ?", (plan.key,)).fetchone()
            merged = {**json.loads(row["facts"]), **facts}
            database.execute("update cell set facts = ? where key = ?", (json.dumps(merged), plan.key))

    def add_arm(self, plan: Plan, name: str, status: str | None, facts: Mapping[str, Any]) -> None:
        """Facts of an arm, beside those that it has; the first status stays."""
        cell = self._cell(plan)
        with self.store.transaction() as database:
            row = database.execute("select status, facts from arm where cell = ? and name = ?", (cell, name)).fetchone()
            before = json.loads(row["facts"]) if row else {}
            kept = row["status"] if row and row["status"] else status
            database.execute(
                "insert or replace into arm (cell, name, status, facts) values (?, ?, ?, ?)",
                (cell, name, kept, json.dumps({**before, **facts})),
            )

    def add_block(
        self,
        plan: Plan,
        place: tuple[int, int],
        steps: Sequence[Step],
        facts: Mapping[str, Any],
        evaluations: Mapping[str, tuple[int, float]],
    ) -> None:
        cell = self._cell(plan)
        repeat, block = place
        with self.store.transaction() as database:
            # A repeat that begins anew after a lost checkpoint takes its steps again.
            database.execute("delete from block where cell = ? and repeat = ? and block = ?", (cell, *place))
            database.execute(
                "insert into block (cell, repeat, block, run, measured, facts) values (?, ?, ?, ?, ?, ?)",
                (cell, repeat, block, self.run, runs.now(), json.dumps(dict(facts))),
            )
            database.executemany(
                "insert or replace into step (cell, repeat, block, arm, step, timed, loss, seconds) "
                "values (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (cell, s.repeat, s.block, s.arm, s.step, int(s.timed), s.loss, json.dumps(dict(s.seconds)))
                    for s in steps
                ],
            )
            database.executemany(
                "insert or replace into evaluation (cell, repeat, arm, step, value) values (?, ?, ?, ?, ?)",
                [(cell, repeat, arm, step, value) for arm, (step, value) in evaluations.items()],
            )

    def _cell(self, plan: Plan) -> int:
        return int(self.store.rows("select id from cell where key = ?", (plan.key,))[0]["id"])

    # ------------------------------------------------------------------ reading

    def holds_all_of(self, plans: Sequence[Plan]) -> bool:
        """Whether nothing is left to measure."""
        return all(self.load(plan).is_complete for plan in plans)

    def plans(self) -> list[Plan]:
        rows = self.store.rows("select plan from cell order by place")
        return [Plan.defined(json.loads(row["plan"])) for row in rows]

    def machines(self) -> list[dict[str, Any]]:
        return [json.loads(row["machine"]) for row in self.store.rows("select machine from run order by id")]

    def command(self) -> list[str]:
        rows = self.store.rows("select command from run order by id desc limit 1")
        return list(json.loads(rows[0]["command"])) if rows else []

    def load(self, plan: Plan) -> CellRecord:
        found = self.store.rows("select id, counts, facts, subject from cell where key = ?", (plan.key,))
        if not found:
            return CellRecord(plan, None, {}, {}, {}, [], {})
        cell, counts, subject = (found[0][name] for name in ("id", "counts", "subject"))
        stored = {
            row["name"]: ArmFacts(row["status"], json.loads(row["facts"]))
            for row in self.store.rows("select name, status, facts from arm where cell = ?", (cell,))
        }
        arms = {label: stored[label] for label in plan.labels if label in stored}
        blocks = {
            (row["repeat"], row["block"]): json.loads(row["facts"])
            for row in self.store.rows("select repeat, block, facts from block where cell = ?", (cell,))
        }
        steps = [
            Step(r["repeat"], r["block"], r["arm"], r["step"], bool(r["timed"]), r["loss"], json.loads(r["seconds"]))
            for r in self.store.rows("select * from step where cell = ? order by repeat, step", (cell,))
        ]
        evaluations: dict[tuple[int, str], list[tuple[int, float]]] = {}
        for r in self.store.rows("select * from evaluation where cell = ? order by step", (cell,)):
            evaluations.setdefault((r["repeat"], r["arm"]), []).append((r["step"], r["value"]))
        return CellRecord(
            plan,
            None if counts is None else Counts(**json.loads(counts)),
            json.loads(found[0]["facts"]),
            arms,
            blocks,
            steps,
            evaluations,
            None if subject is None else Subject.defined(json.loads(subject)),
        )


def _named(plan: Plan) -> str:
    """One of several cells, or the only one, for a message."""
    what = f"the preset {plan.preset}" if plan.preset else f"a profile of {plan.workload}"
    return f"{what} over {plan.axis} with other sizes or settings" if plan.axis else what
