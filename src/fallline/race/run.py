"""Runs a race: checks its workloads, measures the clock, then every trial, and writes each event when it happens."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallline.measure import machine
from fallline.race.calibration import budget_steps
from fallline.race.contestants import Contestant
from fallline.race.engine import LOST, Engine, Event
from fallline.race.plan import BUDGET, RACE, SELF, TARGET, Entry, Rules, target_trials, trials
from fallline.race.results import Calibrated, Results, Row
from fallline.race.stopping import EarlyStop
from fallline.race.training import CENSORED, CRASHED, FAILED, GO_ON, STOP

ATTEMPTS = 3
"""A trial whose worker was lost so often is a row "failed"."""
CALIBRATION_SECONDS = 15.0


class RaceError(Exception):
    """A race that cannot be run; the first line says why."""


Notice = Callable[[str], None]


@dataclasses.dataclass
class Progress:
    """Called as a race goes on; the default says nothing."""

    notice: Notice = lambda text: None
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
    ):
        self.entries = {entry.name: entry for entry in entries}
        self.contestants = {contestant.name: contestant for contestant in contestants}
        self.rules, self.results, self.engine = rules, results, engine
        self.progress = progress or Progress()

    @property
    def reference(self) -> Contestant:
        """Whose step time is the unit of a budget, and who sets targets: AdamW, or the first."""
        return self.contestants.get("adamw") or next(iter(self.contestants.values()))

    def run(self) -> None:
        """All of it, or what is left of it."""
        self.results.begin(self.entries.values(), self.contestants.values(), self.rules)
        self.results.checkpoints.mkdir(exist_ok=True)
        for entry in list(self.entries.values()):
            self._check(entry)
        if not self.entries:
            problems = [row["problem"] for row in self.results.workloads().values() if row["problem"]]
            raise RaceError("; ".join(problems))
        self._calibrate()
        self._set_targets()
        self.results.add_trials(trials(list(self.entries.values()), list(self.contestants.values()), self.rules))
        self._run_trials(RACE)
        shutil.rmtree(self.results.checkpoints, ignore_errors=True)

    # ------------------------------------------------------------------ before the trials

    def _ask(self, request: Mapping[str, Any]) -> Event:
        """One request to one worker while nothing else runs."""
        for _ in range(ATTEMPTS):
            self.engine.submit(0, request)
            _, event = self.engine.wait()
            if event["event"] != LOST:
                return event
        return {"event": "end", "status": FAILED, "note": event["note"]}

    def _check(self, entry: Entry) -> None:
        """Evaluates an untrained model: does the workload work, is its target still ahead?"""
        stored = self.results.workloads()[entry.name]
        if stored["untrained"] is None and stored["problem"] is None:
            event = self._ask({"do": "check", "workload": self._request(entry), "seed": self.rules.seed})
            problem = None
            if event["event"] == "end":
                problem = f"{entry.name}: cannot be evaluated before its first step: {event['note']}"
            elif event["value"] is not None and entry.workload.reached(event["value"]):
                problem = (
                    f"{entry.name}: the target {entry.workload.metric} {entry.workload.target:g} is already met before "
                    f"the first step ({event['value']:.4g}); give a harder one with --target"
                )
            self.results.set_workload(entry.name, untrained=event.get("value"), problem=problem)
            stored = self.results.workloads()[entry.name]
        if stored["problem"]:
            self.progress.notice(f"Left out: {stored['problem']}")
            del self.entries[entry.name]

    def _request(self, entry: Entry) -> dict[str, Any]:
        target = self.results.workloads()[entry.name]["target"]
        return {"spec": entry.spec, "changes": {**entry.changes, **({} if target is None else {"target": target})}}

    def _calibrate(self) -> None:
        if self.rules.clock == "steps":
            return
        known = self.results.calibration()
        for entry in self.entries.values():
            if all((entry.name, name) in known for name in self.contestants):
                continue
            self.progress.notice(
                f"Measuring steps of {len(self.contestants)} contestants on {entry.name}, side by side"
            )
            event = self._ask(self.calibration_request(entry, seconds=CALIBRATION_SECONDS))
            if event["event"] == "end":
                problem = f"{entry.name}: its steps could not be measured: {event['note']}"
                self.results.set_workload(entry.name, problem=problem)
                raise RaceError(problem)
            found = {name: Calibrated(**values) for name, values in event["found"].items()}
            self.results.set_calibration(entry.name, found, event["samples"], machine.describe())

    def calibration_request(self, entry: Entry, *, seconds: float, rounds: int = 0) -> dict[str, Any]:
        arms = []
        for contestant in self.contestants.values():
            point = contestant.trial_points(trials=1, study=0, seed=1, tuned=False)[0]
            arms.append({"contestant": dataclasses.asdict(contestant), "point": point})
        request = {"do": "calibrate", "workload": self._request(entry), "arms": arms}
        return {**request, "seconds": seconds, "rounds": rounds}

    def step_seconds(self) -> dict[tuple[str, str], float]:
        """(workload, contestant) → seconds per step; 1 where steps are the clock."""
        if self.rules.clock == "steps":
            return {(w, c): 1.0 for w in self.entries for c in self.contestants}
        return {key: cost.step_seconds for key, cost in self.results.calibration().items()}

    def _set_targets(self) -> None:
        """Where a workload has no target: the reference's best in two thirds of the budget."""
        without = [e for e in self.entries.values() if self.results.workloads()[e.name]["target"] is None]
        if not without:
            return
        for entry in without:
            self.progress.notice(f"{entry.name} has no target: {self.reference.name} sets it")
            self.results.add_trials(target_trials(entry, self.reference, self.rules))
        self._run_trials(TARGET)
        for entry in without:
            values = []
            for row in self.results.rows(TARGET):
                if row.workload == entry.name:
                    values += [value for _, value, _ in self.results.evaluations(row.id) if value is not None]
            if not values:
                problem = f"{entry.name}: no trial of {self.reference.name} gave a value; give a target with --target"
                self.results.set_workload(entry.name, problem=problem)
                raise RaceError(problem)
            best = min(values) if entry.workload.direction == "lower" else max(values)
            self.results.set_workload(entry.name, target=best, target_from=f"the best of {self.reference.name}")
            self.progress.notice(f"{entry.name}: target {entry.workload.metric} {best:.4g}")

    # ------------------------------------------------------------------ trials

    def max_steps(self, row: Row, seconds: Mapping[tuple[str, str], float]) -> int:
        steps = self.entries[row.workload].workload.max_steps
        if row.kind == TARGET:
            return max(1, 2 * steps // 3)
        if self.rules.ruleset == SELF:
            return math.ceil(steps * self.rules.self_factor)
        if self.rules.ruleset == BUDGET:
            unit = seconds[row.workload, self.reference.name]
            return budget_steps(steps * unit, seconds[row.workload, row.contestant])
        return steps

    def _run_trials(self, kind: str) -> None:
        rows = [row for row in self.results.rows(kind) if row.workload in self.entries]
        seconds = self.step_seconds()
        stop = EarlyStop(rows, self.rules, seconds)
        waiting = deque(row for row in rows if row.status is None)
        self.progress.planned(len(rows) - len(waiting), len(rows))
        free = list(range(self.engine.slots))[::-1]
        running: dict[int, Row] = {}
        # Of this run: attempts in the file also count interruptions of the whole race, which are no trial's fault.
        lost: Counter[int] = Counter()
        while waiting or running:
            while waiting and free:
                row = waiting.popleft()
                slot = free.pop()
                running[slot] = row
                self._submit(slot, row, seconds)
            slot, event = self.engine.wait()
            row = running[slot]
            if event["event"] == "evaluation":
                self.engine.reply(slot, self._evaluated(row, event, stop))
                continue
            del running[slot]
            free.append(slot)
            if event["event"] == LOST and lost[row.id] + 1 < ATTEMPTS:
                lost[row.id] += 1
                self.progress.notice(f"{_named(row)}: {event['note']}; it goes on from its last checkpoint")
                waiting.appendleft(row)
                continue
            self._ended(row, event, stop)

    def _submit(self, slot: int, row: Row, seconds: Mapping[tuple[str, str], float]) -> None:
        max_steps = self.max_steps(row, seconds)
        recorded = self.results.start(row.id, max_steps)
        task = {
            "trial": row.id,
            "contestant": dataclasses.asdict(self.contestants[row.contestant]),
            "point": row.point,
            "seed": row.seed,
            "max_steps": max_steps,
            "schedule_steps": max_steps,
            "stop_at_target": self.rules.ruleset != BUDGET and row.kind == RACE,
            "checkpoint": str(self.results.checkpoints / f"{row.id}.pt"),
            "recorded": recorded,
        }
        self.engine.submit(slot, {"do": "trial", "workload": self._request(self.entries[row.workload]), "task": task})

    def _target(self, row: Row) -> Any:
        entry = self.entries[row.workload]
        target = self.results.workloads()[row.workload]["target"]
        return entry.workload if target is None else entry.workload.replace(target=target)

    def _evaluated(self, row: Row, event: Event, stop: EarlyStop) -> str:
        value = event["value"]
        reached = row.kind == RACE and value is not None and self._target(row).reached(value)
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
        self.results.end(row.id, status, event, event.get("note"))
        stop.ended(row)
        (self.results.checkpoints / f"{row.id}.pt").unlink(missing_ok=True)
        if status in (CRASHED, FAILED):
            self.progress.notice(f"{_named(row)} {status}: {str(event['note']).splitlines()[0]}")
        self.progress.trial_ended(row, status)


def _named(row: Row) -> str:
    return f"{row.contestant} on {row.workload}, study {row.study}, trial {row.number}"


__all__ = ["CENSORED", "Progress", "Race", "RaceError"]
