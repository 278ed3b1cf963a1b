"""Before the trials: whether a workload works, and the cost of a step of each contestant, as workers tell."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from fallline.measure.stats import NORMAL_95
from fallline.race.clock.calibrated import Calibrated, Calibration
from fallline.race.clock.calibration import INTERVAL
from fallline.race.clock.sessions import Session, combined, own_errors
from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
from fallline.race.engine.messages import (
    FAILED,
    Arm,
    Calibrate,
    Check,
    End,
    Event,
    Lost,
    QuickStepTime,
    Request,
    TimeSteps,
    Untrained,
    WorkloadRequest,
)
from fallline.race.plan import Entry
from fallline.workloads import Workload

ATTEMPTS = 3
"""A request whose worker was lost so often has failed."""
CALIBRATION_SECONDS = 15.0
AGAIN_SECONDS = 4.0
"""The length of every session after the first: another process is what counts, not its length."""
ONE_MORE_SESSION = AGAIN_SECONDS + 4.0
"""With the start of its process, which imports torch and builds every model anew."""
KNOWN_WELL = 0.005
"""The relative standard error of ratios at which no more sessions are measured."""


def ask(engine: Engine, request: Request) -> Event:
    """One request to one worker while nothing else runs; a worker that is lost is replaced."""
    note = None
    for _ in range(ATTEMPTS):
        engine.submit(0, request)
        _, event = engine.wait()
        if not isinstance(event, Lost):
            return event
        note = event.note
    return End(FAILED, note=note)


def problem_of(workload: str, what: str, note: str) -> str:
    """Why a workload cannot be raced, by name; a note that begins with it says all by itself."""
    return note if note.startswith(f"{workload}: ") else f"{workload}: {what}: {note}"


def workload_request(entry: Entry, target: float | None) -> WorkloadRequest:
    return WorkloadRequest(entry.spec, {**entry.changes, **({} if target is None else {"target": target})})


@dataclasses.dataclass(frozen=True)
class Checked:
    """A workload whose untrained model was evaluated."""

    value: float | None
    """None if it is not a number."""
    seconds: float
    problem: str | None
    """Why it cannot be raced."""


def check(engine: Engine, entry: Entry, target: float | None, seed: int) -> Checked:
    """Does the workload work, is its target still ahead?"""
    event = ask(engine, Check(workload_request(entry, target), seed))
    if isinstance(event, Untrained):
        return Checked(event.value, event.seconds, _already_met(entry.workload, event.value))
    what = "cannot be evaluated before its first step"
    return Checked(None, 0.0, problem_of(entry.name, what, _note(event)))


def _already_met(workload: Workload, value: float | None) -> str | None:
    if value is None or not workload.reached(value):
        return None
    return (
        f"{workload.name}: the target {workload.metric} {workload.target:g} is already met before the first step "
        f"({value:.4g}, {workload.direction} is better); give a harder one with --target, or the other direction"
    )


@dataclasses.dataclass
class StepCosts:
    """The cost of steps, measured side by side, and the contestants that could not take any."""

    found: dict[str, Calibrated]
    sessions: list[Session]
    """Whoever was measured side by side, together."""
    failed: dict[str, End]
    """Contestant → the event that says why."""
    stopped: dict[str, str]
    """Contestant → why its measuring ended."""

    def loosest(self) -> tuple[str, float] | None:
        """The contestant that is known worst beside the others, and its error at 95 %; None if all are as well as they
        should.

        Whoever was measured alone has no ratio; the interval of its own time is then what is known.
        """
        shares = {name: cost.share for name, cost in self.found.items()}
        for session in self.sessions:
            if session.errors:
                shares |= {name: NORMAL_95 * error for name, error in own_errors(session.steps, session.errors).items()}
        name = max(shares, key=lambda name: shares[name], default=None)
        return None if name is None or shares[name] <= INTERVAL else (name, shares[name])


def measure_steps(
    engine: Engine, workload: WorkloadRequest, contestants: Sequence[Contestant], *, seconds: float
) -> StepCosts:
    """All contestants together; where that fails, those who cannot take a step even alone are left out."""

    def together(some: Sequence[Contestant]) -> Calibration | End:
        event = ask(engine, Calibrate(workload, [_arm(contestant) for contestant in some], seconds))
        assert isinstance(event, Calibration | End)
        return event

    event = together(contestants)
    if isinstance(event, Calibration):
        return _costs([event], {})
    alone = {contestant.name: together([contestant]) for contestant in contestants}
    failed = {name: event for name, event in alone.items() if isinstance(event, End)}
    left = [contestant for contestant in contestants if contestant.name not in failed]
    if failed and len(left) > 1:
        event = together(left)
    # A single one, and those that take steps alone but not side by side, for want of memory, were measured alone.
    measured = [event] if isinstance(event, Calibration) else [e for e in alone.values() if isinstance(e, Calibration)]
    return _costs(measured, failed)


def on_stored_clock(
    found: Mapping[str, Calibrated], stored: Mapping[str, Calibrated]
) -> tuple[dict[str, Calibrated], float]:
    """The cost that newcomers' steps would have had when the others' were measured, and the factor between.

    Stored times stay: trials have been timed by them, or are as long as they allow.  The factor is the geometric mean
    of stored over measured times, over the contestants that were measured both times.
    """
    ratios = [stored[name].step_seconds / found[name].step_seconds for name in found if name in stored]
    scale = statistics.geometric_mean(ratios) if ratios else 1.0
    return {name: cost.scaled(scale) for name, cost in found.items() if name not in stored}, scale


def refined(
    found: Mapping[str, Calibrated], stored: Mapping[str, Calibrated], sessions: Sequence[Session]
) -> dict[str, Calibrated]:
    """The costs of all contestants from all sessions, the last of which gave ``found``."""
    seconds = combined(sessions)
    known = {**stored, **found}
    costs = {}
    for name in (name for name in seconds if name in known):
        ratios = [session.switch_over_step(name) for session in sessions if name in session.steps]
        scaled = known[name].scaled(seconds[name] / known[name].step_seconds)
        costs[name] = dataclasses.replace(scaled, switch_seconds=seconds[name] * statistics.median(ratios))
    return costs


def quick_step_time(engine: Engine, workload: WorkloadRequest, contestant: Contestant) -> QuickStepTime | End:
    """A few steps of one contestant, for a plan; an ``End`` if it cannot take any."""
    event = ask(engine, TimeSteps(workload, _arm(contestant)))
    assert isinstance(event, QuickStepTime | End)
    return event


def _arm(contestant: Contestant) -> Arm:
    return Arm(contestant, contestant.one_setting())


def _note(event: Event) -> str:
    assert isinstance(event, End)
    return event.note or event.status


def _costs(events: Sequence[Calibration], failed: dict[str, End]) -> StepCosts:
    costs = StepCosts({}, [event.session for event in events], failed, {})
    for event in events:
        costs.found |= event.found
        costs.stopped |= dict.fromkeys(event.found, event.stopped)
    return costs
