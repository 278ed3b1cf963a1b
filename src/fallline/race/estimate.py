"""What a race would take: trials, hours and memory, from a few steps of every contestant, before it begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fallline.race.contestants import Contestant
from fallline.race.engine import LocalEngine
from fallline.race.plan import BUDGET, SELF, Entry, Rules, trials
from fallline.race.results import Results
from fallline.race.run import Race, RaceError


@dataclasses.dataclass(frozen=True)
class Estimate:
    trials: int
    to_run: int
    hours: float
    """Of processes, if no trial ends early."""
    jobs: int
    memory_gib: float
    """Of all workers together."""
    by_workload: dict[str, dict[str, float]]
    """Workload → contestant → milliseconds per step."""

    def lines(self) -> list[str]:
        lines = [f"{self.trials} trials, {self.to_run} to run, {self.jobs} side by side"]
        for workload, costs in self.by_workload.items():
            lines.append(f"{workload}: " + ", ".join(f"{name} {ms:.3g} ms a step" for name, ms in costs.items()))
        lines.append(
            f"At most {self.hours / self.jobs:.2g} hours ({self.hours:.2g} of processes), without evaluations; "
            "trials that reach the target or can no longer count end sooner."
        )
        lines.append(f"About {self.memory_gib:.2g} GiB of memory for {self.jobs} workers.")
        return lines

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def estimate(
    entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules, jobs: int, path: Path
) -> Estimate:
    """Steps are timed in a few rounds, not stored: the race itself measures them better."""
    planned = trials(entries, contestants, rules)
    done = _done(path)
    race = Race(entries, contestants, rules, _Nothing(), LocalEngine(1))  # type: ignore[arg-type]
    by_workload: dict[str, dict[str, float]] = {}
    peak = 0
    try:
        for entry in entries:
            event = race._ask(race.calibration_request(entry, seconds=3.0, rounds=3))
            if event["event"] == "end":
                raise RaceError(f"{entry.name}: {event['note']}")
            by_workload[entry.name] = {name: 1e3 * cost["step_seconds"] for name, cost in event["found"].items()}
            peak = max(peak, *(cost["peak_bytes"] for cost in event["found"].values()))
    finally:
        race.engine.close()
    seconds = 0.0
    left = [t for t in planned if (t.workload, t.contestant, t.study, t.number) not in done]
    for trial in left:
        steps = next(e for e in entries if e.name == trial.workload).workload.max_steps
        factor = rules.self_factor if rules.ruleset == SELF else 1.0
        name = race.reference.name if rules.ruleset == BUDGET else trial.contestant
        seconds += steps * factor * by_workload[trial.workload][name] / 1e3
    return Estimate(len(planned), len(left), seconds / 3600, jobs, jobs * peak / 2**30, by_workload)


def _done(path: Path) -> set[tuple[str, str, int, int]]:
    if not path.exists():
        return set()
    with Results(path, writable=False) as results:
        return {(r.workload, r.contestant, r.study, r.number) for r in results.rows() if r.status is not None}


class _Nothing:
    """In place of a results file: a plan stores nothing."""

    def workloads(self) -> Any:
        class Without(dict[str, Any]):
            def __missing__(self, name: str) -> dict[str, Any]:
                return {"target": None}

        return Without()
