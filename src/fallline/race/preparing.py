"""Before the trials: what is asked of workers, whether a workload works, and what a step of each contestant costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.contestants import Contestant
from fallline.race.engine import LOST, Engine, Event
from fallline.race.plan import Entry
from fallline.race.results import Calibrated
from fallline.race.training import FAILED

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


def check_request(entry: Entry, target: float | None, seed: int) -> dict[str, Any]:
    return {"do": "check", "workload": workload_request(entry, target), "seed": seed}


@dataclasses.dataclass
class StepCosts:
    """What steps cost, side by side, and who could not take any."""

    found: dict[str, Calibrated]
    samples: dict[str, Any]
    failed: dict[str, Event]
    """Contestant → the ``end`` event that says why."""


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


def glance(engine: Engine, workload: Mapping[str, Any], contestant: Contestant) -> Event:
    """A few steps of one contestant, for a plan; an ``end`` event if it cannot take any."""
    return ask(engine, {"do": "glance", "workload": workload, "arm": _arm(contestant)})


def _arm(contestant: Contestant) -> dict[str, Any]:
    point = contestant.trial_points(trials=1, study=0, seed=1, tuned=False)[0]
    return {"contestant": dataclasses.asdict(contestant), "point": point}


def _costs(events: Sequence[Event], failed: dict[str, Event]) -> StepCosts:
    costs = StepCosts({}, {}, failed)
    for event in events:
        costs.found |= {name: Calibrated(**values) for name, values in event["found"].items()}
        costs.samples |= event["samples"]
    return costs
