"""Runs a race: checks its workloads, measures the clock, then every trial, and writes each event when it happens."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from fallline.measure import machine
from fallline.race import continuing, preparing
from fallline.race.clock import StepClock
from fallline.race.contestants import Contestant
from fallline.race.engine import LOST, Engine, Event
from fallline.race.plan import (
    BUDGET,
    RACE,
    STEPS_CLOCK,
    TARGET,
    Entry,
    Rules,
    target_trials,
    trials,
)
from fallline.race.results import Results, Row
from fallline.race.stopping import EarlyStop
from fallline.race.training import CRASHED, ENDED, FAILED, GO_ON, OVER_BUDGET, STOP
from fallline.workloads import Workload


class RaceError(Exception):
    """A race that cannot be run; the first line says why."""


@dataclasses.dataclass
class Progress:
    """Called as a race goes on; the default says nothing."""

    notice: Callable[[str], None] = lambda text: None
    trial_ended: Callable[[Row, str], None] = lambda row, status: None
    planned: Callable[[int, int], None] = lambda done, total: None


class Race:
    def __init__(
        self,
        entries: Sequence[Entry],
        contestants: Sequence[Contestant],
        rules: Rules,
        results: Results,
        engine: Engine,
        progress: Progress | None = None,
        save_every: float | None = None,
    ):
        self.entries = {entry.name: entry for entry in entries}
        self.contestants = {contestant.name: contestant for contestant in contestants}
        self.rules, self.results, self.engine = rules, results, engine
        self.progress = progress or Progress()
        self.save_every = save_every
        self._unable: dict[tuple[str, str], Event] = {}
        """(workload, contestant) → why it could not take a step."""
        self._goals: dict[str, Workload] = {}
        """The workloads with the targets that are raced to."""

    @property
    def reference(self) -> Contestant:
        """As it was when the race began: whoever is added since, budgets stay equal."""
        return self.contestants[self.results.reference(list(self.contestants.values()))]

    def run(self) -> None:
        """All of it, or what is left of it."""
        self.results.begin(self.entries.values(), self.contestants.values(), self.rules)
        for line in continuing.changed_files(self.results, list(self.entries.values())):
            self.progress.notice(line)
        try:
            self.results.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise RaceError(f"{self.results.checkpoints}: {error.strerror}; name another file with --results") from None
        for prepare in (self._check, self._calibrate):
            for entry in list(self.entries.values()):
                prepare(entry)
        self._set_targets()
        if not self.entries:
            with contextlib.suppress(OSError):  # there are checkpoints of an earlier run
                self.results.checkpoints.rmdir()
            raise RaceError("; ".join(row["problem"] for row in self.results.workloads().values() if row["problem"]))
        self.results.add_trials(trials(list(self.entries.values()), list(self.contestants.values()), self.rules))
        self._run_trials(RACE)
        shutil.rmtree(self.results.checkpoints, ignore_errors=True)

    def measure_again(self) -> None:
        """The clock of a race that is stored, anew: in a quiet hour, for trials that ran in a busy one."""
        if self.rules.clock == STEPS_CLOCK:
            raise RaceError(
                f"{self.results.path}: was raced by steps alone (--clock steps); there is no clock to measure"
            )
        if self.rules.ruleset == BUDGET and self.results.begun_workloads():
            raise RaceError(
                f"{self.results.path}: the trials of an equal-time race are as long as the steps measured before them "
                "allow; race anew with --anew, or name another file with --results"
            )
        for entry in list(self.entries.values()):
            self._calibrate(entry, anew=True)

    # ------------------------------------------------------------------ before the trials

    def _leave_out(self, entry: Entry, problem: str) -> None:
        """What was measured on it before stays; the others are raced."""
        self.results.set_workload(entry.name, problem=problem)
        del self.entries[entry.name]
        if self.entries:
            self.progress.notice(f"Left out: {problem}")

    def _check(self, entry: Entry) -> None:
        """Evaluates an untrained model: does the workload work, is its target still ahead?"""
        stored = self.results.workloads()[entry.name]
        if stored["untrained"] is not None and stored["problem"] is None:
            return
        event = preparing.ask(self.engine, preparing.check_request(entry, stored["target"], self.rules.seed))
        if event["event"] == "end":
            what = "cannot be evaluated before its first step"
            self._leave_out(entry, preparing.problem_of(entry.name, what, event["note"]))
        elif event["value"] is not None and entry.workload.reached(event["value"]):
            workload = entry.workload
            self._leave_out(
                entry,
                f"{entry.name}: the target {workload.metric} {workload.target:g} is already met before the first step "
                f"({event['value']:.4g}, {workload.direction} is better); give a harder one with --target, or the "
                f"other direction",
            )
        else:
            self.results.set_workload(entry.name, untrained=event["value"], problem=None)

    def _calibrate(self, entry: Entry, *, anew: bool = False) -> None:
        if self.rules.clock == STEPS_CLOCK:
            return
        known = {*self.results.calibration(), *self.results.never_started()}
        if not anew and all((entry.name, name) in known for name in self.contestants):
            return
        who = ", ".join(self.contestants) if len(self.contestants) < 4 else f"{len(self.contestants)} contestants"
        self.progress.notice(f"Measuring steps of {who} on {entry.name}")
        target = self.results.workloads()[entry.name]["target"]
        costs = preparing.measure_steps(
            self.engine,
            preparing.workload_request(entry, target),
            list(self.contestants.values()),
            seconds=preparing.CALIBRATION_SECONDS,
        )
        if not costs.found:
            note = next(iter(costs.failed.values()))["note"]
            self._leave_out(entry, preparing.problem_of(entry.name, "no contestant can take a step", note))
            return
        for name, event in costs.failed.items():
            self.progress.notice(f"{name} cannot take a step on {entry.name}: {str(event['note']).splitlines()[0]}")
            self._unable[entry.name, name] = event
        self.results.set_calibration(entry.name, costs.found, costs.samples, machine.describe())

    def _set_targets(self) -> None:
        """Where a workload has no target: the reference's best in two thirds of the budget."""
        without = [e for e in self.entries.values() if self.results.workloads()[e.name]["target"] is None]
        for entry in without:
            self.progress.notice(f"{entry.name} has no target: {self.reference.name} sets it")
            self.results.add_trials(target_trials(entry, self.reference, self.rules))
        if without:
            self._run_trials(TARGET)
        for entry in without:
            rows = [row for row in self.results.rows(TARGET) if row.workload == entry.name]
            found = [value for row in rows for _, value, _ in self.results.evaluations(row.id) if value is not None]
            if not found:
                why = f"no trial of {self.reference.name} gave a value; give a target with --target"
                self._leave_out(entry, f"{entry.name}: {why}")
                continue
            best = min(found) if entry.workload.direction == "lower" else max(found)
            self.results.set_workload(entry.name, target=best, target_from=f"the best of {self.reference.name}")
            self.progress.notice(f"{entry.name}: target {entry.workload.metric} {best:.4g}")

    # ------------------------------------------------------------------ trials

    def max_steps(self, row: Row, clock: StepClock) -> int:
        steps = self.entries[row.workload].workload.max_steps
        if self.rules.ruleset == BUDGET and row.kind != TARGET and clock.knows(row.workload, row.contestant):
            # In the order in which they were entered first, which a later command does not change.
            others = [self.reference.name, *(contestant.name for contestant in self.results.contestants())]
            unit = next(name for name in others if clock.knows(row.workload, name))
            return clock.steps_within(row.workload, row.contestant, clock.seconds(row.workload, unit, steps))
        return self.rules.most_steps(steps, row.kind)

    def _run_trials(self, kind: str) -> None:
        stored = self.results.workloads()
        for name, entry in self.entries.items():
            target = stored[name]["target"]
            self._goals[name] = entry.workload if target is None else entry.workload.replace(target=target)
        rows = [row for row in self.results.rows(kind) if row.workload in self.entries]
        every = {name: about["facts"]["eval_every"] for name, about in stored.items()}
        clock = StepClock(self.rules, self.results.calibration(), every)
        stop = EarlyStop(rows, self.rules, clock)
        waiting = deque(row for row in rows if row.status is None)
        self.progress.planned(len(rows) - len(waiting), len(rows))
        for row in waiting:
            if row.attempts == 0:  # then a checkpoint is another race's, whose results file is gone
                self._checkpoint(row).unlink(missing_ok=True)
        # At once: a race that is killed then knows them, and does not measure everybody again.
        for row in [row for row in waiting if (row.workload, row.contestant) in self._unable]:
            self._ended(row, self._unable[row.workload, row.contestant], stop)
            waiting.remove(row)
        free = list(range(self.engine.slots))[::-1]
        running: dict[int, Row] = {}
        # Of this run: attempts in the file also count interruptions of the whole race, which are no trial's fault.
        lost: Counter[int] = Counter()
        while waiting or running:
            while waiting and free:
                row = waiting.popleft()
                slot = free.pop()
                running[slot] = row
                self._submit(slot, row, clock)
            slot, event = self.engine.wait()
            row = running[slot]
            if event["event"] == "evaluation":
                self.engine.reply(slot, self._evaluated(row, event, stop))
                continue
            del running[slot]
            free.append(slot)
            if event["event"] == LOST and lost[row.id] + 1 < preparing.ATTEMPTS:
                lost[row.id] += 1
                self.progress.notice(f"{_named(row)}: {event['note']}; it goes on from its last checkpoint")
                waiting.appendleft(row)
                continue
            self._ended(row, event, stop)

    def _checkpoint(self, row: Row) -> Path:
        return self.results.checkpoints / f"{row.id}.pt"

    def _submit(self, slot: int, row: Row, clock: StepClock) -> None:
        # What began with one length goes on with it, whatever was measured since: its schedule counts on it.
        max_steps = row.max_steps or self.max_steps(row, clock)
        recorded = self.results.start(row.id, max_steps)
        task = {
            "trial": row.id,
            "contestant": dataclasses.asdict(self.contestants[row.contestant]),
            "point": row.point,
            "seed": row.seed,
            "max_steps": max_steps,
            "stop_at_target": self.rules.ruleset != BUDGET and row.kind == RACE,
            "checkpoint": str(self._checkpoint(row)),
            "recorded": recorded,
            "save_every": self.save_every,
        }
        goal = self._goals[row.workload].target
        workload = preparing.workload_request(self.entries[row.workload], goal)
        self.engine.submit(slot, {"do": "trial", "workload": workload, "task": task})

    def _evaluated(self, row: Row, event: Event, stop: EarlyStop) -> str:
        value = event["value"]
        reached = row.kind == RACE and value is not None and self._goals[row.workload].reached(value)
        if not self.results.add_evaluation(row.id, event, reached):
            self.results.remark(
                row.id, f"not deterministic: step {event['step']} gave another value when it was repeated"
            )
        if reached:
            stop.reached(row, event["step"])
            return GO_ON
        reason = stop.reason(row, event["step"])
        if reason is None:
            return GO_ON
        self.results.remark(row.id, reason)
        return STOP

    def _ended(self, row: Row, event: Event, stop: EarlyStop) -> None:
        status = FAILED if event["event"] == LOST else event["status"]
        if status in (OVER_BUDGET, ENDED) and not self.results.has_values(row.id):
            self.results.remark(row.id, "the metric was never a number")
        self.results.end(row.id, status, event, event.get("note"))
        stop.ended(row)
        self._checkpoint(row).unlink(missing_ok=True)
        if status in (CRASHED, FAILED):
            self.progress.notice(f"{_named(row)} {status}: {str(event['note']).splitlines()[0]}")
        self.progress.trial_ended(row, status)


def _named(row: Row) -> str:
    return f"{row.contestant} on {row.workload}, study {row.study}, trial {row.number}"
