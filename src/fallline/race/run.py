"""Runs a race: checks its workloads, measures the clock, then every trial, and writes each event when it happens."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shlex
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fallline.measure import machine
from fallline.race import step_costs
from fallline.race.clock.step_clock import StepClock
from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
from fallline.race.engine.messages import (
    CENSORED,
    CRASHED,
    ENDED,
    FAILED,
    GO_ON,
    OUT_OF_MEMORY,
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
from fallline.race.measuring import Measuring, measure_and_store
from fallline.race.plan import (
    BUDGET,
    RACE,
    STEPS_CLOCK,
    TARGET,
    Entry,
    Rules,
    searches,
    target_horizon,
    target_trials,
    trials,
)
from fallline.race.results import Results, Row, resume
from fallline.race.rounds import Rounds, store_final_look
from fallline.race.trial_queue import FixedQueue, TrialQueue
from fallline.race.verdict.early_stop import EarlyStop
from fallline.race.verdict.memory_budget import too_large
from fallline.race.verdict.race_look import RaceLook
from fallline.workloads import Workload
from fallline.workloads.workload import LOWER


class RaceError(Exception):
    """A race that cannot be run; the first line says why."""


@dataclasses.dataclass
class Progress:
    """Called as a race goes on; the default says nothing."""

    notice: Callable[[str], None] = lambda text: None
    trial_ended: Callable[[Row, str], None] = lambda row, status: None
    planned: Callable[[int, int], None] = lambda done, total: None
    round_planned: Callable[[int, int], None] = lambda done, total: None
    """As ``planned``, for every round after the first."""
    looked: Callable[[RaceLook], None] = lambda look: None


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
        command: Sequence[str] = (),
    ):
        self.entries = {entry.name: entry for entry in entries}
        self.contestants = {contestant.name: contestant for contestant in contestants}
        self.rules, self.results, self.engine = rules, results, engine
        self.progress = progress or Progress()
        self.save_every = save_every
        self.command = command
        """The arguments it was started with, for the record."""
        self._unable: dict[tuple[str, str], End] = {}
        """(workload, contestant) → why it could not take a step."""
        self._goals: dict[str, Workload] = {}
        """The workloads with the targets that are raced to."""
        self._run: int | None = None
        """Its row in the results file, once it has trials to run."""
        self._unsaved: set[int] = set()
        """Trials of which it was told that a checkpoint could not be saved."""
        self._lengths: dict[tuple[str, str, str], int] = {}
        """(kind, workload, contestant) → the steps of its trials, where time is equal and one has begun."""

    @property
    def reference(self) -> Contestant:
        """As it was when the race began: whoever is added since, budgets stay equal."""
        return self.contestants[self.results.reference(list(self.contestants.values()))]

    def run(self) -> None:
        """All of it, or what is left of it."""
        self.results.begin(self.entries.values(), self.contestants.values(), self.rules)
        # Before anything is measured: whoever asks for the status meanwhile sees what is to run.
        rounds = self._rounds() if self.rules.in_rounds else None
        if rounds is not None:
            rounds.begin()
        else:
            self.results.add_trials(trials(list(self.entries.values()), list(self.contestants.values()), self.rules))
        files = {
            **resume.workload_files(self.entries.values()),
            **resume.optimizer_files(self.contestants.values()),
        }
        for line in resume.changed_files(self.results, files):
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
        self._leave_out_too_large()
        self._run_trials(RACE, rounds)
        if rounds is not None:
            rounds.close()
        else:
            if self._run is not None:
                self.measuring().measure(self.contestants)
            store_final_look(self.results)
        if self._run is not None:
            self.results.end_run(self._run)
        if all(row.status is not None for row in self.results.rows()):
            shutil.rmtree(self.results.checkpoints, ignore_errors=True)

    def _rounds(self) -> Rounds:
        tell = self.progress
        return Rounds(
            self.entries,
            self.contestants,
            self.rules,
            self.results,
            tell.looked,
            tell.round_planned,
            self.measuring(),
        )

    def measuring(self) -> Measuring:
        return Measuring(self.engine, self.results, self.rules, self.entries, self.contestants)

    def measure_again(self) -> None:
        """Measures the clock of a stored race anew: in a quiet hour, for trials that ran in a busy one.

        The caller gives the race's workloads and contestants, as to every race: a results file names files, but whether
        they are run is for the user to say (``resume.entries_again``).
        """
        for entry in self.entries.values():
            resume.refuse_another_file(self.results, entry)
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
        """Goes on without a workload; rows that were stored for it stay."""
        self.results.leave_out(entry.name, problem)
        del self.entries[entry.name]
        if self.entries:
            self.progress.notice(f"Left out: {problem}")

    def _check(self, entry: Entry) -> None:
        """Evaluates an untrained model: does the workload work, is its target still ahead?"""
        stored = self.results.workloads()[entry.name]
        if stored["untrained"] is not None and stored["problem"] is None:
            return
        checked = step_costs.check(self.engine, entry, stored["target"], self.rules.seed)
        if checked.problem is not None:
            self._leave_out(entry, checked.problem)
        else:
            self.results.set_workload(entry.name, untrained=checked.value, problem=None)

    def _calibrate(self, entry: Entry, *, anew: bool = False) -> None:
        if self.rules.clock == STEPS_CLOCK:
            return
        if not anew and not self.results.unmeasured(entry.name):
            return
        who = ", ".join(self.contestants) if len(self.contestants) < 4 else f"{len(self.contestants)} contestants"
        self.progress.notice(f"Measuring steps of {who} on {entry.name}")
        everybody, seconds = list(self.contestants.values()), step_costs.CALIBRATION_SECONDS
        costs = measure_and_store(self.engine, self.results, self.rules, entry, everybody, seconds, anew=anew)
        if not costs.found:
            note = next(iter(costs.failed.values())).note or FAILED
            self._leave_out(entry, step_costs.problem_of(entry.name, "no contestant can take a step", note))
            return
        for name, event in costs.failed.items():
            self.progress.notice(f"{name} cannot take a step on {entry.name}: {event.reason}")
            self._unable[entry.name, name] = event
        self._tell_how_well(entry, costs)

    def _tell_how_well(self, entry: Entry, costs: step_costs.StepCosts) -> None:
        loosest = costs.loosest()
        if loosest is None:
            return
        name, share = loosest
        again = f"`{self._calibrate_command()}` measures them again"
        self.progress.notice(
            f"Steps on {entry.name} are known to ±{100 * share:.1f} % ({name}), {costs.stopped[name]}: the machine was "
            f"busy; {'trials are as long as they allow' if self.rules.ruleset == BUDGET else again}"
        )

    def _calibrate_command(self) -> str:
        workloads = resume.workload_files(self.entries.values())
        optimizers = resume.optimizer_files(self.contestants.values())
        return calibrate_command(self.results.path, dict.fromkeys([*workloads.values(), *optimizers.values()]))

    def _set_targets(self) -> None:
        """Where a workload has no target: what the reference finds in two thirds of the budget."""
        without = [e for e in self.entries.values() if self.results.workloads()[e.name]["target"] is None]
        for entry in without:
            self.progress.notice(f"{entry.name} has no target: {self.reference.name} sets it")
            self.results.add_trials(target_trials(entry, self.reference, self.rules))
        if without:
            self._run_trials(TARGET)
        for entry in without:
            bests = self._best_values(entry)
            searched = searches(self.reference, self.rules)
            target = bests[0] if searched else statistics.median(bests)
            if math.isinf(target):
                why = f"too few trials of {self.reference.name} gave a value; give a target with --target"
                self._leave_out(entry, f"{entry.name}: {why}")
                continue
            source = "the best" if searched else f"the median of {len(bests)} runs"
            self.results.set_workload(entry.name, target=target, target_from=f"{source} of {self.reference.name}")
            self.progress.notice(f"{entry.name}: target {entry.workload.metric} {target:.4g}")

    def _leave_out_too_large(self) -> None:
        """Contestants whose states do not fit get rows that say so; the reference may set targets all the same."""
        for name, why in too_large(self.rules.memory_budget, self.results.calibration()).items():
            self.progress.notice(f"{name} is left out: {why}")
            for workload in self.entries:
                self._unable[workload, name] = End(OUT_OF_MEMORY, note=why)

    def _best_values(self, entry: Entry) -> list[float]:
        """The best value of every trial that sets the target, best first; ±∞ where a trial gave no value."""
        lower = entry.workload.direction == LOWER
        found = []
        for row in self.results.rows(TARGET):
            if row.workload == entry.name:
                values = [value for _, value, _ in self.results.evaluations(row.id) if value is not None]
                found.append(min(values, default=math.inf) if lower else max(values, default=-math.inf))
        return sorted(found, reverse=not lower)

    # ------------------------------------------------------------------ trials

    def max_steps(self, row: Row, clock: StepClock) -> int:
        if self.rules.ruleset == BUDGET and clock.knows(row.workload, row.contestant):
            seconds = self.rules.seconds or self._budget_seconds(row.workload, clock)
            steps = clock.steps_within(row.workload, row.contestant, seconds)
            return steps if row.kind == RACE else target_horizon(steps)
        return self.rules.most_steps(self.entries[row.workload].workload.max_steps, row.kind)

    def _budget_seconds(self, workload: str, clock: StepClock) -> float:
        """The seconds that the reference takes for the workload's budget."""
        # In the order in which they were entered first, which a later command does not change.
        others = [self.reference.name, *(contestant.name for contestant in self.results.contestants())]
        unit = next(name for name in others if clock.knows(workload, name))
        return clock.seconds(workload, unit, self.entries[workload].workload.max_steps)

    def _run_trials(self, kind: str, rounds: Rounds | None = None) -> None:
        stored = self.results.workloads()
        for name, entry in self.entries.items():
            target = stored[name]["target"]
            self._goals[name] = entry.workload if target is None else entry.workload.replace(target=target)
        rows = [row for row in self.results.rows(kind) if row.workload in self.entries]
        every = {name: about["facts"]["eval_every"] for name, about in stored.items()}
        clock = StepClock(self.rules, self.results.calibration(), every)
        stop = EarlyStop(rows, self.rules, clock)
        waiting = [row for row in rows if row.status is None]
        if waiting and self._run is None:
            self._run = self.results.start_run(machine.describe(), self.command)
        # Equal time is the same number of steps in every study, whatever was measured since.
        for row in rows if self.rules.ruleset == BUDGET else ():
            if row.max_steps is not None:
                self._lengths.setdefault((row.kind, row.workload, row.contestant), row.max_steps)
        self.progress.planned(len(rows) - len(waiting), len(rows))
        for row in waiting:
            if row.attempts == 0:  # then a checkpoint is another race's, whose results file is gone
                self._checkpoint(row).unlink(missing_ok=True)
        # At once: a race that is killed then knows them, and does not measure everybody again.
        unable = [row for row in waiting if (row.workload, row.contestant) in self._unable]
        for row in unable:
            self._ended(row, self._unable[row.workload, row.contestant], stop)
        if rounds is not None:
            rounds.start()
            if rounds.ended_by is None and self._run is None:
                self._run = self.results.start_run(machine.describe(), self.command)
        self._drain(rounds or FixedQueue(row for row in waiting if row not in unable), clock, stop)

    def _drain(self, queue: TrialQueue, clock: StepClock, stop: EarlyStop) -> None:
        """Runs trials until the queue has no more; those that run when it is over are left as they are."""
        free = list(range(self.engine.slots))[::-1]
        running: dict[int, Row] = {}
        left: set[int] = set()
        # Of this run: attempts in the file also count interruptions of the whole race, which are no trial's fault.
        lost: Counter[int] = Counter()
        while True:
            while free and (row := queue.next()) is not None:
                if (row.workload, row.contestant) in self._unable:
                    self._ended(row, self._unable[row.workload, row.contestant], stop)
                    queue.ended(row)
                    continue
                slot = free.pop()
                running[slot] = row
                self._submit(slot, row, clock)
            if not running:
                return
            slot, event = self.engine.wait()
            row = running[slot]
            if isinstance(event, Evaluation):
                reply = self._evaluated(row, event, stop)
                if reply == GO_ON and queue.expired():
                    left.add(row.id)
                    reply = STOP
                self.engine.reply(slot, reply)
                continue
            if isinstance(event, Notice):
                self.progress.notice(event.text)
                self.engine.reply(slot, GO_ON)
                continue
            del running[slot]
            free.append(slot)
            if isinstance(event, Lost) and lost[row.id] + 1 < step_costs.ATTEMPTS:
                lost[row.id] += 1
                self.progress.notice(f"{_named(row)}: {event.note}; it goes on from its last checkpoint")
                queue.put_back(row)
                continue
            assert isinstance(event, End | Lost)
            if row.id in left and isinstance(event, End) and event.status == CENSORED:
                continue  # the same command goes on with it
            self._ended(row, End(FAILED, note=event.note) if isinstance(event, Lost) else event, stop)
            queue.ended(row)

    def _checkpoint(self, row: Row) -> Path:
        return self.results.checkpoints / f"{row.id}.pt"

    def _submit(self, slot: int, row: Row, clock: StepClock) -> None:
        # What began with one length goes on with it, whatever was measured since: its schedule counts on it.
        known = row.max_steps or self._lengths.get((row.kind, row.workload, row.contestant))
        max_steps = known or self.max_steps(row, clock)
        recorded = self.results.start(row.id, max_steps)
        task = Assignment(
            trial=row.id,
            contestant=self.contestants[row.contestant],
            point=row.point,
            seed=row.seed,
            max_steps=max_steps,
            stop_at_target=self.rules.ruleset != BUDGET and row.kind == RACE,
            checkpoint=str(self._checkpoint(row)),
            recorded=recorded,
            save_every=self.save_every,
        )
        goal = self._goals[row.workload].target
        self.engine.submit(slot, RunTrial(step_costs.workload_request(self.entries[row.workload], goal), task))

    def _evaluated(self, row: Row, event: Evaluation, stop: EarlyStop) -> Reply:
        reached = row.kind == RACE and event.value is not None and self._goals[row.workload].reached(event.value)
        if not self.results.add_evaluation(row.id, event, reached):
            self.results.remark(row.id, f"not deterministic: step {event.step} gave another value when it was repeated")
        if event.unsaved and row.id not in self._unsaved:
            self._unsaved.add(row.id)
            self.progress.notice(
                f"{_named(row)}: its checkpoint cannot be saved ({event.unsaved}); if it is interrupted, it goes on "
                "from the one before, or begins anew"
            )
        if reached:
            stop.reached(row, event.step)
            return GO_ON
        reason = stop.reason(row, event.step)
        if reason is None:
            return GO_ON
        self.results.remark(row.id, reason)
        return STOP

    def _ended(self, row: Row, event: End, stop: EarlyStop) -> None:
        if event.status in (OVER_BUDGET, ENDED) and not self.results.has_values(row.id):
            self.results.remark(row.id, "the metric was never a number")
        self.results.end(row.id, event)
        stop.ended(row)
        self._checkpoint(row).unlink(missing_ok=True)
        if event.status in (CRASHED, FAILED):
            self.progress.notice(f"{_named(row)} {event.status}: {event.reason}")
        self.progress.trial_ended(row, event.status)


def calibrate_command(results: Path, files: Iterable[Path]) -> str:
    """To be pasted; it names the users' files whose code it runs, because it refuses to run any other."""
    here = Path.cwd()
    near = [file.relative_to(here) if file.is_relative_to(here) else file for file in files]
    return shlex.join(["fallline", "results", "calibrate", str(results), *map(str, near)])


def _named(row: Row) -> str:
    return f"{row.contestant} on {row.workload}, study {row.study}, trial {row.number}"
