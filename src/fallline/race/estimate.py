"""What a race would take: trials, hours and memory, before it begins.

From step times that its results file holds, or else from a few steps of every contestant: seconds, not minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from fallline.measure.machine import cores, load_average
from fallline.race import preparing
from fallline.race.contestants import Contestant
from fallline.race.engine import LocalEngine
from fallline.race.plan import BUDGET, SELF, TARGET, Entry, Rules, Trial, reference_of, target_trials, trials
from fallline.race.results import Results
from fallline.race.run import RaceError


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one workload."""

    step_seconds: Mapping[str, float]
    """By contestant; without those that cannot take a step."""
    evaluation_seconds: float
    peak_bytes: int
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Estimate:
    trials: int
    to_run: int
    training_hours: float
    """Of processes, if no trial ends early."""
    evaluation_hours: float
    jobs: int
    memory_gib: float
    """Of all workers together."""
    by_workload: Mapping[str, Cost]
    load_average: float | None = None
    """Of the machine, while steps were timed."""

    def lines(self) -> list[str]:
        lines = [f"{self.trials} trials, {self.to_run} to run, {self.jobs} side by side."]
        for workload, cost in self.by_workload.items():
            steps = ", ".join(f"{name} {1e3 * seconds:.3g}" for name, seconds in cost.step_seconds.items())
            lines.append(f"{workload}: ms per step: {steps}; per evaluation: {1e3 * cost.evaluation_seconds:.3g}")
            lines += cost.problems
        hours = self.training_hours + self.evaluation_hours
        lines.append(
            f"At most {duration(hours / self.jobs)}: {duration(self.training_hours)} of training and "
            f"{duration(self.evaluation_hours)} of evaluation, {self.jobs} at a time."
        )
        lines.append("Trials that reach the target, or can no longer count, end sooner.")
        lines.append(f"About {self.memory_gib:.2g} GiB of memory for {self.jobs} workers.")
        if (self.load_average or 0.0) > cores():
            lines.append(
                f"The machine is busy, load {self.load_average:.1f} on {cores()} processors: alone it takes less."
            )
        return lines

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def duration(hours: float) -> str:
    """Hours in the unit that suits them.

    >>> duration(2.5), duration(0.2), duration(0.004)
    ('2.5 hours', '12.0 minutes', '14 s')
    """
    if hours >= 0.995:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else f"{3600 * hours:.0f} s"


def estimate(
    entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules, jobs: int, path: Path
) -> Estimate:
    """Nothing is stored: the race itself measures steps better."""
    known = _stored(path)
    engine = LocalEngine(1)
    try:
        costs = {entry.name: _cost(engine, entry, contestants, rules, known) for entry in entries}
    finally:
        engine.close()
    planned = trials(entries, contestants, rules)
    for entry in entries:
        if entry.workload.target is None:
            planned += target_trials(entry, reference_of(contestants), rules)
    left = [t for t in planned if (t.kind, t.workload, t.contestant, t.study, t.number) not in known.ended]
    workloads = {entry.name: entry.workload for entry in entries}
    training = evaluation = 0.0
    for trial in left:
        cost, workload = costs[trial.workload], workloads[trial.workload]
        steps = workload.max_steps * _share_of_budget(trial, rules)
        pace = cost.step_seconds.get(reference_of(contestants).name if rules.ruleset == BUDGET else trial.contestant)
        training += steps * (pace or 0.0)
        evaluation += math.ceil(steps / (workload.eval_every or 1)) * cost.evaluation_seconds
    peak = max(cost.peak_bytes for cost in costs.values())
    return Estimate(
        trials=len(planned),
        to_run=len(left),
        training_hours=training / 3600,
        evaluation_hours=evaluation / 3600,
        jobs=jobs,
        memory_gib=min(jobs, len(left)) * peak / 2**30,
        by_workload=costs,
        load_average=load_average(),
    )


def _cost(engine: LocalEngine, entry: Entry, contestants: Sequence[Contestant], rules: Rules, known: _Stored) -> Cost:
    evaluation = preparing.check_request(entry, entry.workload.target, rules.seed)
    # Twice, because the first one may have to make or load its data.
    for _ in range(2):
        checked = preparing.ask(engine, evaluation)
        if checked["event"] == "end":
            raise RaceError(f"{entry.name}: cannot be evaluated before its first step: {checked['note']}")
    request = preparing.workload_request(entry, entry.workload.target)
    seconds, peak, problems = {}, 0, {}
    for contestant in contestants:
        cost = known.steps.get((entry.name, contestant.name)) or preparing.glance(engine, request, contestant)
        if "note" in cost:
            problems[contestant.name] = cost["note"]
        else:
            seconds[contestant.name] = float(cost["step_seconds"])
            peak = max(peak, cost["peak_bytes"] or 0)
    if not seconds:
        raise RaceError(f"{entry.name}: no contestant can take a step: {next(iter(problems.values()))}")
    lines = [f"{name} cannot take a step: {note.splitlines()[0]}" for name, note in problems.items()]
    return Cost(seconds, float(checked["seconds"]), peak, tuple(lines))


def _share_of_budget(trial: Trial, rules: Rules) -> float:
    if trial.kind == TARGET:
        return 2 / 3
    return rules.self_factor if rules.ruleset == SELF else 1.0


@dataclasses.dataclass(frozen=True)
class _Stored:
    """What a results file holds of a race that has begun."""

    ended: Set[tuple[str, str, str, int, int]] = frozenset()
    """Trials: kind, workload, contestant, study, number."""
    steps: Mapping[tuple[str, str], Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """(workload, contestant) → its calibration."""


def _stored(path: Path) -> _Stored:
    if not path.exists():
        return _Stored()
    with Results(path, writable=False) as results:
        rows = [*results.rows(), *results.rows(TARGET)]
        ended = {(r.kind, r.workload, r.contestant, r.study, r.number) for r in rows if r.status is not None}
        return _Stored(ended, {key: dataclasses.asdict(cost) for key, cost in results.calibration().items()})
