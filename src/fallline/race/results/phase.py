"""How far a race is before its trials, read from its results file while it runs, or after it was interrupted."""

from __future__ import annotations

from fallline.race.plan import SEARCH, STEPS_CLOCK, TARGET
from fallline.race.results.results_file import Results


def phase(results: Results) -> str | None:
    """In a few words; None once the race's own trials are all that is left, or nothing is."""
    if all(row.status is not None for row in results.rows()):
        return None
    return _searching(results) or _setting_targets(results) or _checking(results) or _measuring(results)


def _workloads(results: Results) -> dict[str, dict[str, object]]:
    return {name: about for name, about in results.workloads().items() if about["problem"] is None}


def _searching(results: Results) -> str | None:
    rows = results.rows(SEARCH)
    ended = sum(row.status is not None for row in rows)
    return f"searching settings: {ended} of {len(rows)} trials have ended" if ended < len(rows) else None


def _setting_targets(results: Results) -> str | None:
    without = [name for name, about in _workloads(results).items() if about["target"] is None]
    rows = [row for row in results.rows(TARGET) if row.workload in without]
    if not rows:
        return None
    names = ", ".join(dict.fromkeys(row.workload for row in rows))
    ended = sum(row.status is not None for row in rows)
    return f"setting the target of {names}: {ended} of {len(rows)} trials have ended"


def _checking(results: Results) -> str | None:
    """A value that is no number is stored as none, so what has come further counts as checked."""
    further = {*results.begun_workloads(), *(workload for workload, _ in results.calibration())}
    found = [name for name, about in _workloads(results).items() if about["untrained"] is None and name not in further]
    return f"checking {', '.join(found)}" if found else None


def _measuring(results: Results) -> str | None:
    if results.rules().clock == STEPS_CLOCK:
        return None
    found = [name for name in _workloads(results) if results.unmeasured(name)]
    return f"measuring steps on {', '.join(found)}" if found else None
