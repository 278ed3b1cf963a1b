"""Before the trials: what is asked of workers, whether a workload works, and what a step of each contestant costs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fallline.race.calibration import INTERVAL
from fallline.race.contestants import Contestant
from fallline.race.engine import LOST, Engine, Event
from fallline.race.plan import Entry
from fallline.race.results import Calibrated
from fallline.race.training import FAILED
from fallline.workloads import Workload

ATTEMPTS = 3
"""What was lost with its worker so often has failed."""
CALIBRATION_SECONDS = 15.0


def ask(engine: Engine, request: Mapping[str, Any]) -> Event:
    """One request to one worker while nothing else runs; a worker that is lost is replaced."""
    for _ in range(ATTEMPTS):
        engine.submit(0, request)
        _, event = engine.wait()
        if event["event"] != LOST:
            return event
    return {"event": "end", "status": FAILED, "note": event["note"]}


def problem_of(workload: str, what: str, note: str) -> str:
    """Why a workload cannot be raced, by name; a note that begins with it says all by itself."""
    return note if note.startswith(f"{workload}: ") else f"{workload}: {what}: {note}"


def workload_request(entry: Entry, target: float | None) -> dict[str, Any]:
    return {"spec": entry.spec, "changes": {**entry.changes, **({} if target is None else {"target": target})}}


@dataclasses.dataclass(frozen=True)
class Checked:
    """What the evaluation of an untrained model says of a workload."""

    value: float | None
    """None if it is not a number."""
    seconds: float
    problem: str | None
    """Why it cannot be raced."""


def check(engine: Engine, entry: Entry, target: float | None, seed: int) -> Checked:
    """Does the workload work, is its target still ahead?"""
    event = ask(engine, {"do": "check", "workload": workload_request(entry, target), "seed": seed})
    if event["event"] == "end":
        what = "cannot be evaluated before its first step"
        return Checked(None, 0.0, problem_of(entry.name, what, event["note"]))
    return Checked(event["value"], event["seconds"], _already_met(entry.workload, event["value"]))


def _already_met(workload: Workload, value: float | None) -> str | None:
    if value is None or not workload.reached(value):
        return None
    return (
        f"{workload.name}: the target {workload.metric} {workload.target:g} is already met before the first step "
        f"({value:.4g}, {workload.direction} is better); give a harder one with --target, or the other direction"
    )


@dataclasses.dataclass
class StepCosts:
    """What steps cost, side by side, and who could not take any."""

    found: dict[str, Calibrated]
    samples: dict[str, Any]
    failed: dict[str, Event]
    """Contestant → the ``end`` event that says why."""
    stopped: dict[str, str]
    """Contestant → why its measuring ended."""

    def loosest(self, names: Iterable[str]) -> tuple[str, float] | None:
        """Which of these is known worst, and to ± which share of its median; None if all are as well as they should."""
        shares = {name: self.found[name].share for name in names}
        name = max(shares, key=lambda name: shares[name], default=None)
        return None if name is None or shares[name] <= INTERVAL else (name, shares[name])


def measure_steps(
    engine: Engine,
    workload: Mapping[str, Any],
    contestants: Sequence[Contestant],
    *,
    seconds: float,
) -> StepCosts:
    """All contestants together; where that fails, those who cannot take a step even alone are left out."""

    def together(some: Sequence[Contestant]) -> Event:
        request = {"do": "calibrate", "workload": workload, "arms": list(map(_arm, some)), "seconds": seconds}
        return ask(engine, request)

    event = together(contestants)
    if event["event"] != "end":
        return _costs([event], {})
    alone = {contestant.name: together([contestant]) for contestant in contestants}
    failed = {name: event for name, event in alone.items() if event["event"] == "end"}
    left = [contestant for contestant in contestants if contestant.name not in failed]
    if failed and len(left) > 1:
        event = together(left)
    # A single one, and those that take steps alone but not side by side, for want of memory, were measured alone.
    return _costs([event] if event["event"] != "end" else [alone[c.name] for c in left], failed)


def on_stored_clock(
    found: Mapping[str, Calibrated], stored: Mapping[str, Calibrated]
) -> tuple[dict[str, Calibrated], float]:
    """What newcomers' steps would have cost when the others' were measured, and the factor that says so.

    Stored times stay: trials have been timed by them, or are as long as they allow.  The factor is the geometric mean
    of stored over measured times, of those who were measured both times.
    """
    ratios = [stored[name].step_seconds / found[name].step_seconds for name in found if name in stored]
    scale = statistics.geometric_mean(ratios) if ratios else 1.0
    return {name: cost.scaled(scale) for name, cost in found.items() if name not in stored}, scale


def glance(engine: Engine, workload: Mapping[str, Any], contestant: Contestant) -> Event:
    """A few steps of one contestant, for a plan; an ``end`` event if it cannot take any."""
    return ask(engine, {"do": "glance", "workload": workload, "arm": _arm(contestant)})


def _arm(contestant: Contestant) -> dict[str, Any]:
    return {"contestant": dataclasses.asdict(contestant), "point": contestant.one_setting()}


def _costs(events: Sequence[Event], failed: dict[str, Event]) -> StepCosts:
    costs = StepCosts({}, {}, failed, {})
    for event in events:
        costs.found |= {name: Calibrated(**values) for name, values in event["found"].items()}
        costs.samples |= event["samples"]
        costs.stopped |= dict.fromkeys(event["found"], event["stopped"])
    return costs
