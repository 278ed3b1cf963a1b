"""Runs trials on an engine: gives each to a free worker, and writes every event before the worker goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fallline.measure import machine
from fallline.race import step_costs
from fallline.race.clock.step_clock import StepClock
from fallline.race.engine.messages import (
    CENSORED,
    CRASHED,
    ENDED,
    FAILED,
    GO_ON,
    OVER_BUDGET,
    STOP,
    Assignment,
    End,
    Evaluation,
    Lost,
    Notice,
    Reply,
    RunTrial,
)
from fallline.race.lineup import Lineup
from fallline.race.plan import BUDGET, RACE, SEARCH, target_horizon
from fallline.race.progress import Progress
from fallline.race.results import Row
from fallline.race.trial_queue import FixedQueue, TrialQueue
from fallline.race.verdict.early_stop import EarlyStop
from fallline.workloads import Workload


class TrialRunner:
    def __init__(self, lineup: Lineup, progress: Progress, save_every: float | None, command: Sequence[str]):
        self._entries, self._contestants = lineup.entries, lineup.contestants
        self._rules, self._results = lineup.rules, lineup.results
        self._engine, self._progress = lineup.engine, progress
        self._save_every, self._command = save_every, command
        self.unable: dict[tuple[str, str], End] = {}
        """(workload, contestant) → why it could not take a step."""
        self.record: int | None = None
        """The row of this run in the results file, once it has trials to run."""
        self._goals: dict[str, Workload] = {}
        """The workloads with the targets that are raced to."""
        self._unsaved: set[int] = set()
        """Trials of which it was told that a checkpoint could not be saved."""
        self._lengths: dict[tuple[str, str, str], int] = {}
        """(kind, workload, contestant) → the steps of its trials, where time is equal and one has begun."""

    @property
    def _reference(self) -> str:
        return self._results.reference(list(self._contestants.values()))

    def max_steps(self, row: Row, clock: StepClock) -> int:
        if self._rules.ruleset == BUDGET and clock.knows(row.workload, row.contestant):
            seconds = self._rules.seconds or self._budget_seconds(row.workload, clock)
            steps = clock.steps_within(row.workload, row.contestant, seconds)
            return steps if row.kind == RACE else target_horizon(steps)
        workload = self._entries[row.workload].workload
        if row.kind == SEARCH and workload.target is None:
            return target_horizon(workload.max_steps)  # as the runs that set its target, which come after
        return self._rules.most_steps(workload.max_steps, row.kind)

    def _ends_at_target(self, row: Row) -> bool:
        """Whether a trial runs to the target; a search only if the target was given, and not set after it."""
        given = self._entries[row.workload].workload.target is not None
        return row.kind == RACE or (row.kind == SEARCH and given)

    def _budget_seconds(self, workload: str, clock: StepClock) -> float:
        """The seconds that the reference takes for the workload's budget."""
        # In the order in which they were entered first, which a later command does not change.
        others = [self._reference, *(contestant.name for contestant in self._results.contestants())]
        unit = next(name for name in others if clock.knows(workload, name))
        return clock.seconds(workload, unit, self._entries[workload].workload.max_steps)

    def run(self, kind: str, queue: TrialQueue | None = None, expired: Callable[[], bool] = lambda: False) -> None:
        stored = self._results.workloads()
        for name, entry in self._entries.items():
            target = stored[name]["target"]
            self._goals[name] = entry.workload if target is None else entry.workload.replace(target=target)
        rows = [row for row in self._results.rows(kind) if row.workload in self._entries]
        every = {name: about["facts"]["eval_every"] for name, about in stored.items()}
        clock = StepClock(self._rules, self._results.calibration(), every)
        stop = EarlyStop(rows, self._rules, clock)
        waiting = [row for row in rows if row.status is None]
        if waiting and self.record is None:
            self.record = self._results.start_run(machine.describe(), self._command)
        # Equal time is the same number of steps in every study, whatever was measured since.
        for row in rows if self._rules.ruleset == BUDGET else ():
            if row.max_steps is not None:
                self._lengths.setdefault((row.kind, row.workload, row.contestant), row.max_steps)
        self._progress.planned(len(rows) - len(waiting), len(rows))
        for row in waiting:
            if row.attempts == 0:  # then a checkpoint is another race's, whose results file is gone
                self._checkpoint(row).unlink(missing_ok=True)
        # At once: a race that is killed then knows them, and does not measure everybody again.
        unable = [row for row in waiting if (row.workload, row.contestant) in self.unable]
        for row in unable:
            self._ended(row, self.unable[row.workload, row.contestant], stop)
        if queue is not None:
            queue.start()
            if self.record is None and not queue.expired():
                self.record = self._results.start_run(machine.describe(), self._command)
        self._drain(queue or FixedQueue((row for row in waiting if row not in unable), expired), clock, stop)

    def _drain(self, queue: TrialQueue, clock: StepClock, stop: EarlyStop) -> None:
        """Runs trials until the queue has no more; those that run when it is over are left as they are."""
        free = list(range(self._engine.slots))[::-1]
        running: dict[int, Row] = {}
        left: set[int] = set()
        # Counts this run only: attempts in the file include interruptions of the race, which are no trial's fault.
        lost: Counter[int] = Counter()
        while True:
            while free and (row := queue.next()) is not None:
                if (row.workload, row.contestant) in self.unable:
                    self._ended(row, self.unable[row.workload, row.contestant], stop)
                    queue.ended(row)
                    continue
                slot = free.pop()
                running[slot] = row
                self._submit(slot, row, clock)
            if not running:
                return
            slot, event = self._engine.wait()
            row = running[slot]
            if isinstance(event, Evaluation):
                reply = self._evaluated(row, event, stop)
                if reply == GO_ON and queue.expired():
                    left.add(row.id)
                    reply = STOP
                self._engine.reply(slot, reply)
                continue
            if isinstance(event, Notice):
                self._progress.notice(event.text)
                self._engine.reply(slot, GO_ON)
                continue
            del running[slot]
            free.append(slot)
            if isinstance(event, Lost) and lost[row.id] + 1 < step_costs.ATTEMPTS:
                lost[row.id] += 1
                self._progress.notice(f"{_named(row)}: {event.note}; it goes on from its last checkpoint")
                queue.put_back(row)
                continue
            assert isinstance(event, End | Lost)
            if row.id in left and isinstance(event, End) and event.status == CENSORED:
                continue  # the same command goes on with it
            self._ended(row, End(FAILED, note=event.note) if isinstance(event, Lost) else event, stop)
            queue.ended(row)

    def _checkpoint(self, row: Row) -> Path:
        return self._results.checkpoints / f"{row.id}.pt"

    def _submit(self, slot: int, row: Row, clock: StepClock) -> None:
        # A trial that began with one length goes on with it, whatever was measured since: its schedule counts on it.
        known = row.max_steps or self._lengths.get((row.kind, row.workload, row.contestant))
        max_steps = known or self.max_steps(row, clock)
        recorded = self._results.start(row.id, max_steps)
        task = Assignment(
            trial=row.id,
            contestant=self._contestants[row.contestant],
            point=row.point,
            seed=row.seed,
            max_steps=max_steps,
            stop_at_target=self._rules.ruleset != BUDGET and self._ends_at_target(row),
            checkpoint=str(self._checkpoint(row)),
            recorded=recorded,
            save_every=self._save_every,
        )
        goal = self._goals[row.workload].target
        self._engine.submit(slot, RunTrial(step_costs.workload_request(self._entries[row.workload], goal), task))

    def _evaluated(self, row: Row, event: Evaluation, stop: EarlyStop) -> Reply:
        goal = self._goals[row.workload]
        reached = self._ends_at_target(row) and event.value is not None and goal.reached(event.value)
        if not self._results.add_evaluation(row.id, event, reached):
            self._results.remark(
                row.id, f"not deterministic: step {event.step} gave another value when it was repeated"
            )
        if event.unsaved and row.id not in self._unsaved:
            self._unsaved.add(row.id)
            self._progress.notice(
                f"{_named(row)}: its checkpoint cannot be saved ({event.unsaved}); if it is interrupted, it goes on "
                "from the one before, or begins anew"
            )
        if reached:
            stop.reached(row, event.step)
            return GO_ON
        reason = stop.reason(row, event.step)
        if reason is None:
            return GO_ON
        self._results.remark(row.id, reason)
        return STOP

    def _ended(self, row: Row, event: End, stop: EarlyStop) -> None:
        if event.status in (OVER_BUDGET, ENDED) and not self._results.has_values(row.id):
            self._results.remark(row.id, "the metric was never a number")
        self._results.end(row.id, event)
        stop.ended(row)
        self._checkpoint(row).unlink(missing_ok=True)
        if event.status in (CRASHED, FAILED):
            self._progress.notice(f"{_named(row)} {event.status}: {event.reason}")
        self._progress.trial_ended(row, event.status)


def _named(row: Row) -> str:
    return f"{row.contestant} on {row.workload}, study {row.study}, trial {row.number}"
