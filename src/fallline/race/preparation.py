"""The preparation of the trials of a race: workloads checked, steps measured, settings found, targets set."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable
from typing import Any

from fallline.document.numbers import counted
from fallline.race import step_costs
from fallline.race.contestants import Contestant
from fallline.race.engine.messages import FAILED, OUT_OF_MEMORY, End
from fallline.race.lineup import Lineup
from fallline.race.measuring import measure_and_store
from fallline.race.plan import (
    BUDGET,
    SEARCH,
    STEPS_CLOCK,
    TARGET,
    Entry,
    searches,
    target_trials,
    with_settings,
)
from fallline.race.progress import Progress, RaceError
from fallline.race.results import resume
from fallline.race.search import Search
from fallline.race.trial_runner import TrialRunner
from fallline.race.verdict.memory_budget import most_bytes, nobody_fits, too_large
from fallline.workloads.workload import LOWER


class Preparation:
    def __init__(self, lineup: Lineup, progress: Progress, trials: TrialRunner):
        self._lineup = lineup
        self._entries, self._contestants = lineup.entries, lineup.contestants
        self._rules, self._results = lineup.rules, lineup.results
        self._engine, self._progress, self._trials = lineup.engine, progress, trials
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        """(workload, contestant) → the setting that a search gave it."""

    @property
    def _reference(self) -> Contestant:
        """As it was when the race began: whoever is added since, budgets stay equal."""
        return self._contestants[self._results.reference(list(self._contestants.values()))]

    def _leave_out(self, entry: Entry, problem: str) -> None:
        """Goes on without a workload; rows that were stored for it stay."""
        self._results.leave_out(entry.name, problem)
        del self._entries[entry.name]
        if self._entries:
            self._progress.notice(f"Left out: {problem}")

    def check(self, entry: Entry) -> None:
        """Evaluates an untrained model: does the workload work, is its target still ahead?"""
        stored = self._results.workloads()[entry.name]
        if stored["untrained"] is not None and stored["problem"] is None:
            return
        checked = step_costs.check(self._engine, entry, stored["target"], self._rules.seed)
        if checked.problem is not None:
            self._leave_out(entry, checked.problem)
        else:
            if checked.value is None or not math.isfinite(checked.value):
                metric = entry.workload.metric
                self._progress.notice(
                    f"{entry.name}: {metric} is no number before training; while it is none, no target is met"
                )
            self._results.set_workload(entry.name, untrained=checked.value, problem=None)

    def calibrate(self, entry: Entry, *, anew: bool = False) -> None:
        if self._rules.clock == STEPS_CLOCK:
            return
        if not anew and not self._results.unmeasured(entry.name):
            return
        who = ", ".join(self._contestants) if len(self._contestants) < 4 else f"{len(self._contestants)} contestants"
        self._progress.notice(f"Measuring steps of {who} on {entry.name}")
        everybody, seconds = list(self._contestants.values()), step_costs.CALIBRATION_SECONDS
        costs = measure_and_store(self._engine, self._results, self._rules, entry, everybody, seconds, anew=anew)
        if not costs.found:
            note = next(iter(costs.failed.values())).note or FAILED
            self._leave_out(entry, step_costs.problem_of(entry.name, "no contestant can take a step", note))
            return
        for name, event in costs.failed.items():
            self._progress.notice(f"{name} cannot take a step on {entry.name}: {event.reason}")
            self._trials.unable[entry.name, name] = event
        self._tell_how_well(entry, costs)

    def _tell_how_well(self, entry: Entry, costs: step_costs.StepCosts) -> None:
        loosest = costs.loosest()
        if loosest is None:
            return
        name, share = loosest
        again = f"`{self._calibrate_command()}` measures them again"
        self._progress.notice(
            f"Steps on {entry.name} are known to ±{100 * share:.1f} % ({name}), {costs.stopped[name]}: the machine was "
            f"busy; {'trials are as long as they allow' if self._rules.ruleset == BUDGET else again}"
        )

    def _calibrate_command(self) -> str:
        workloads = resume.workload_files(self._entries.values())
        optimizers = resume.optimizer_files(self._contestants.values())
        return resume.calibrate_command(self._results.path, dict.fromkeys([*workloads.values(), *optimizers.values()]))

    def search(self, expired: Callable[[], bool]) -> None:
        """A setting for each contestant on each workload, if the rules ask for a search; the race then runs with it."""
        if not self._rules.search or not self._entries:
            return
        searched = dataclasses.replace(self._lineup, contestants=self._searched())
        search = Search(searched, expired)
        to_run = search.begin()
        if to_run:
            count = sum(row.status is None for row in self._results.rows(SEARCH))
            each = counted(self._rules.search, "setting")
            self._progress.notice(f"Searching: {each} of each contestant, on one seed, {counted(count, 'trial')}")
            self._trials.run(SEARCH, search)
        self.found.update(search.found())
        for (workload, contestant), point in self.found.items():
            self._results.set_point(workload, contestant, point)
        if to_run and not expired():
            self._tell_found()

    def _searched(self) -> dict[str, Contestant]:
        """Those that may be taken, and the reference where it has to set a target."""
        known = self._results.workloads()
        sets = any(known[name]["target"] is None for name in self._entries)
        large = too_large(self._rules.memory_budget, most_bytes(self._results.calibration()))
        kept = {self._reference.name} if sets else set()
        return {name: contestant for name, contestant in self._contestants.items() if name not in large or name in kept}

    def _tell_found(self) -> None:
        for workload in self._entries:
            told = []
            for name, contestant in self._searched().items():
                point = self.found.get((workload, name))
                if point is not None:
                    varied = contestant.space or point
                    told.append(f"{name} {', '.join(f'{key} {point[key]:.3g}' for key in varied if key in point)}")
                elif contestant.space or contestant.points:
                    told.append(f"{name} its documented setting, as no trial gave a value")
            self._progress.notice(f"Chosen on {workload}: {'; '.join(told)}")

    def set_targets(self, expired: Callable[[], bool]) -> None:
        """Where a workload has no target: what the reference finds in two thirds of the budget."""
        without = [e for e in self._entries.values() if self._results.workloads()[e.name]["target"] is None]
        for entry in without:
            self._progress.notice(f"{entry.name} has no target: {self._reference.name} sets it")
            setter = with_settings(self._reference, self.found.get((entry.name, self._reference.name)))
            self._results.add_trials(target_trials(entry, setter, self._rules))
        if without:
            self._trials.run(TARGET, expired=expired)
        if any(row.status is None for row in self._results.rows(TARGET)):
            return  # time is up; the same command with more of it goes on
        for entry in without:
            bests = self._best_values(entry)
            searched = searches(self._reference, self._rules)
            target = bests[0] if searched else statistics.median(bests)
            if math.isinf(target):
                why = f"too few trials of {self._reference.name} gave a value; give a target with --target"
                self._leave_out(entry, f"{entry.name}: {why}")
                continue
            source = "the best" if searched else f"the median of {len(bests)} runs"
            self._results.set_workload(entry.name, target=target, target_from=f"{source} of {self._reference.name}")
            self._progress.notice(f"{entry.name}: target {entry.workload.metric} {target:.4g}")

    def refuse_if_nobody_fits(self) -> None:
        problem = nobody_fits(self._rules.memory_budget, most_bytes(self._results.calibration()))
        if problem is not None:
            raise RaceError(problem)

    def leave_out_too_large(self) -> None:
        """Contestants whose states do not fit get rows that say so; the reference may set targets all the same."""
        for name, why in too_large(self._rules.memory_budget, most_bytes(self._results.calibration())).items():
            self._progress.notice(f"{name} is left out: {why}")
            for workload in self._entries:
                self._trials.unable[workload, name] = End(OUT_OF_MEMORY, note=why)

    def _best_values(self, entry: Entry) -> list[float]:
        """The best value of every trial that sets the target, best first; ±∞ where a trial gave no value."""
        lower = entry.workload.direction == LOWER
        found = []
        for row in self._results.rows(TARGET):
            if row.workload == entry.name:
                values = [value for _, value, _ in self._results.evaluations(row.id) if value is not None]
                found.append(min(values, default=math.inf) if lower else max(values, default=-math.inf))
        return sorted(found, reverse=not lower)
