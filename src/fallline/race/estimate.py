"""The cost of a race: trials, hours and memory, before it begins.

From step times that its results file holds, or else from a few steps of every contestant: seconds, not minutes.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from fallline.document.numbers import byte_unit, duration
from fallline.measure.machine import cores, load_average
from fallline.race import step_costs
from fallline.race.contestants import Contestant
from fallline.race.engine import LocalEngine
from fallline.race.engine.messages import End
from fallline.race.plan import (
    BUDGET,
    MOST_STUDIES,
    RACE,
    SEARCH,
    STEPS_CLOCK,
    TARGET,
    Entry,
    Rules,
    Trial,
    reference_of,
    search_trials,
    target_trials,
    trials,
)
from fallline.race.plan.foresight import FIXED_NOISE, TUNED_NOISE, Foresight, Pace, enough, foresee
from fallline.race.progress import RaceError
from fallline.race.results import Calibrated, Results, resume
from fallline.race.verdict.memory_budget import nobody_fits, too_large
from fallline.workloads import Workload


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of racing on one workload."""

    step_seconds: Mapping[str, float]
    """By contestant; without those that cannot take a step."""
    evaluation_seconds: float
    state_bytes: Mapping[str, int]
    """Held by the optimizer of a contestant between steps."""
    peak_bytes: int
    """The peak of a worker, whichever contestant it runs."""
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Estimate:
    trials: int
    to_run: int
    training_hours: float
    """Hours of processes, if no trial ends early."""
    evaluation_hours: float
    jobs: int
    hours: float
    """Until the last trial has ended, at most: no trial is cut in two, however many processes there are."""
    calibration_seconds: float
    """Before the trials, at most, to measure steps that are not in the results file."""
    memory_gib: float
    """The memory of all workers together."""
    ends_early: bool
    """Whether trials may end before their budget does; in an equal-time race none does."""
    by_workload: Mapping[str, Cost]
    left_out: tuple[str, ...] = ()
    """Why workloads cannot be raced, though others can."""
    load_average: float | None = None
    """The load of the machine while steps were timed."""
    first_round_hours: float | None = None
    """Hours until the first look of a race in rounds, at most; None in a fixed design."""
    first_round: Foresight | None = None
    in_time: Foresight | None = None
    """The forecast for the first round and for the end, within the race's minutes."""
    minutes: float | None = None
    within: float | None = None
    enough_studies: int | None = None
    """The studies of everybody, for a choice within that margin even if all are equal; None if that takes too many."""
    enough_hours: float | None = None

    def lines(self) -> list[str]:
        lines = [f"{self.trials} trials, {self.to_run} to run, {self.jobs} side by side."]
        for workload, cost in self.by_workload.items():
            steps = ", ".join(f"{name} {1e3 * seconds:.3g}" for name, seconds in cost.step_seconds.items())
            lines.append(f"{workload}: ms per step: {steps}; per evaluation: {1e3 * cost.evaluation_seconds:.3g}")
            unit, unit_name = byte_unit(max(cost.state_bytes.values()))
            states = ", ".join(f"{name} {size / unit:.3g}" for name, size in cost.state_bytes.items())
            lines.append(f"{workload}: {unit_name} of states: {states}")
            lines += cost.problems
        lines += [f"Left out: {problem}" for problem in self.left_out]
        if self.calibration_seconds:
            lines.append(f"First, up to {duration(self.calibration_seconds / 3600)} to measure steps.")
        lines.append(
            f"These trials take at most {duration(self.hours)}: {duration(self.training_hours)} of training and "
            f"{duration(self.evaluation_hours)} of evaluation, {self.jobs} at a time."
        )
        lines += self._rounds()
        if self.ends_early:
            lines.append("Trials that reach the target, or can no longer count, end sooner.")
        lines.append(f"About {self.memory_gib:.2g} GiB of memory for {self.jobs} workers.")
        if (self.load_average or 0.0) > cores():
            lines.append(
                f"The machine is busy, load {self.load_average:.1f} on {cores()} processors: alone it takes less."
            )
        return lines

    def _rounds(self) -> list[str]:
        if self.first_round is None or self.first_round_hours is None:
            return []
        lines = [
            f"The first round, with what comes before it and steps measured once more, takes at most "
            f"{duration(self.first_round_hours)}. {self.first_round.line()}"
        ]
        if self.minutes is not None and self.in_time is None:
            lines.append(
                f"In {self.minutes:g} minutes it may not end: then there is no choice yet; give more --minutes."
            )
        elif self.in_time is not None and self.in_time.studies > self.first_round.studies:
            lines.append(f"In {self.minutes:g} minutes: {self.in_time.line()}")
        if self.enough_studies is not None and self.enough_hours is not None:
            lines.append(
                f"A choice within {100 * (self.within or 0.0):g} % takes at most {self.enough_studies} studies each, "
                f"{duration(self.enough_hours)}, even if all are equal; far fewer where they differ."
            )
        return lines

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def estimate(
    entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules, jobs: int, path: Path
) -> Estimate:
    """Nothing is stored: the race itself measures steps better."""
    known = _stored(entries, contestants, rules, path)
    costs, problems = _costs(entries, contestants, rules, known)
    entries = [entry for entry in entries if entry.name in costs]
    if not entries:
        raise RaceError("; ".join(problems))
    sizes: dict[str, int] = {}
    for cost in costs.values():
        sizes |= {name: max(size, sizes.get(name, 0)) for name, size in cost.state_bytes.items()}
    if problem := nobody_fits(rules.memory_budget, sizes):
        raise RaceError(problem)
    large = too_large(rules.memory_budget, sizes)
    problems += [f"{name}: {why}" for name, why in large.items()]
    fitting = [contestant for contestant in contestants if contestant.name not in large]
    reference = known.reference or reference_of(contestants).name
    setter = next(contestant for contestant in contestants if contestant.name == reference)
    planned = trials(entries, fitting, rules)
    for entry in entries:
        if rules.search:
            planned += search_trials(entry, fitting, rules)
        if entry.workload.target is None and entry.name not in known.targets:
            planned += target_trials(entry, setter, rules)
    left = [t for t in planned if (t.kind, t.workload, t.contestant, t.study, t.number) not in known.ended]
    workloads = {entry.name: entry.workload for entry in entries}
    spent = [_seconds(trial, workloads[trial.workload], costs[trial.workload], rules, reference) for trial in left]
    unknown = [e for e in entries if any((e.name, c.name) not in known.steps for c in contestants)]
    peak = max(cost.peak_bytes for cost in costs.values())

    def hours_of(some: Sequence[Trial]) -> float:
        seconds = (
            _seconds(trial, workloads[trial.workload], costs[trial.workload], rules, reference) for trial in some
        )
        return last_end([sum(parts) for parts in seconds], jobs) / 3600

    first_session = 0.0 if rules.clock == STEPS_CLOCK else step_costs.CALIBRATION_SECONDS * len(unknown) / 3600
    raced = [trial for trial in planned if trial.kind == RACE]
    others = hours_of([trial for trial in left if trial.kind != RACE])
    return Estimate(
        **_foreseen(rules, len(fitting), len(entries), hours_of(raced), others + first_session),
        trials=len(planned),
        to_run=len(left),
        training_hours=sum(training for training, _ in spent) / 3600,
        evaluation_hours=sum(evaluation for _, evaluation in spent) / 3600,
        jobs=jobs,
        hours=last_end([training + evaluation for training, evaluation in spent], jobs) / 3600,
        calibration_seconds=3600 * first_session,
        memory_gib=min(jobs, len(left)) * peak / 2**30,
        ends_early=rules.ruleset != BUDGET,
        by_workload=costs,
        left_out=tuple(problems),
        load_average=load_average(),
    )


def _foreseen(rules: Rules, contestants: int, workloads: int, round_hours: float, before: float) -> dict[str, Any]:
    """The fields that say what rounds could decide; of times on one workload, of which the usual noise is known."""
    if not rules.in_rounds or workloads > 1 or contestants < 2 or rules.ruleset == BUDGET:
        return {}
    noise = TUNED_NOISE if rules.tuned else FIXED_NOISE
    minutes = rules.minutes or rules.minutes_after_a_look
    session = 0.0 if rules.clock == STEPS_CLOCK else step_costs.ONE_MORE_SESSION / 3600
    pace = Pace(before, round_hours, rules.studies, session)
    found: dict[str, Any] = {
        "first_round_hours": round_hours + session,
        "first_round": foresee(rules.studies, contestants, noise),
        "minutes": minutes,
    }
    if minutes is not None:
        fit = pace.studies_within(minutes / 60, MOST_STUDIES)
        waits = rules.minutes is None
        if fit >= rules.studies or waits:
            found["in_time"] = foresee(max(fit, rules.studies), contestants, noise)
    studies = enough(rules.within, contestants, noise) if rules.within and rules.until is None else None
    if studies is not None:
        found |= {"within": rules.within, "enough_studies": studies, "enough_hours": pace.hours(studies)}
    return found


def _seconds(trial: Trial, workload: Workload, cost: Cost, rules: Rules, reference: str) -> tuple[float, float]:
    """Seconds of training and of evaluation of a trial that does not end early."""
    pace = cost.step_seconds.get(trial.contestant)
    if pace is None:  # a contestant that cannot take a step takes no time
        return 0.0, 0.0
    shorter = trial.kind == SEARCH and workload.target is None
    steps = float(rules.most_steps(workload.max_steps, TARGET if shorter else trial.kind))
    if rules.ruleset == BUDGET:
        equal = rules.seconds or workload.max_steps * cost.step_seconds.get(reference, pace)
        steps = (equal if trial.kind == RACE else 2 / 3 * equal) / pace
    return steps * pace, math.ceil(steps / (workload.eval_every or 1)) * cost.evaluation_seconds


def last_end(seconds: Sequence[float], jobs: int) -> float:
    """When the last of some trials ends, each taken by the first process that is free.

    >>> last_end([4.0, 1.0, 1.0], jobs=2), last_end([4.0], jobs=2)
    (4.0, 4.0)
    """
    ends = [0.0] * jobs
    for taken in seconds:
        heapq.heapreplace(ends, ends[0] + taken)
    return max(ends)


def _costs(
    entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules, known: _Stored
) -> tuple[dict[str, Cost], list[str]]:
    """By workload, and what is wrong with those that the race would leave out."""
    costs, problems = {}, []
    engine = LocalEngine(1)
    try:
        for entry in entries:
            cost = _cost(engine, entry, contestants, rules, known)
            if isinstance(cost, Cost):
                costs[entry.name] = cost
            else:
                problems.append(cost)
    finally:
        engine.close()
    return costs, problems


def _cost(
    engine: LocalEngine, entry: Entry, contestants: Sequence[Contestant], rules: Rules, known: _Stored
) -> Cost | str:
    """The cost of one workload, or why it cannot be raced."""
    # Twice, because the first one may have to make or load its data.
    for _ in range(2):
        checked = step_costs.check(engine, entry, entry.workload.target, rules.seed)
        if checked.problem is not None:
            return checked.problem
    request = step_costs.workload_request(entry, entry.workload.target)
    seconds, states, peak, problems = {}, {}, 0, {}
    for contestant in contestants:
        cost = known.steps.get((entry.name, contestant.name)) or step_costs.quick_step_time(engine, request, contestant)
        if isinstance(cost, End):
            problems[contestant.name] = cost.note or cost.status
        else:
            seconds[contestant.name] = cost.step_seconds
            states[contestant.name] = cost.state_bytes
            peak = max(peak, cost.peak_bytes or 0)
    if not seconds:
        note = next(iter(problems.values()))
        return step_costs.problem_of(entry.name, "no contestant can take a step", note)
    lines = [f"{name} cannot take a step: {note.splitlines()[0]}" for name, note in problems.items()]
    return Cost(seconds, checked.seconds, states, peak, tuple(lines))


@dataclasses.dataclass(frozen=True)
class _Stored:
    """The part of a race that a results file already holds."""

    ended: Set[tuple[str, str, str, int, int]] = frozenset()
    """Trials: kind, workload, contestant, study, number."""
    steps: Mapping[tuple[str, str], Calibrated] = dataclasses.field(default_factory=dict)
    """(workload, contestant) → its calibration."""
    targets: Set[str] = frozenset()
    """Workloads whose target is set."""
    reference: str | None = None


def _stored(entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules, path: Path) -> _Stored:
    if not path.exists():
        return _Stored()
    with Results(path, writable=False) as results:
        if not results.begun_workloads() and not resume.is_same(results, entries, contestants, rules):
            return _Stored()  # the race will begin anew
        resume.check(results, entries, contestants, rules)
        rows = [row for kind in (RACE, TARGET, SEARCH) for row in results.rows(kind)]
        ended = {(r.kind, r.workload, r.contestant, r.study, r.number) for r in rows if r.status is not None}
        targets = {name for name, about in results.workloads().items() if about["target"] is not None}
        return _Stored(ended, results.calibration(), targets, results.reference(contestants))
