"""The largest batch of each arm within a memory budget, found by the model of memory and confirmed by a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from fallline.profile.first_look import look_at
from fallline.profile.plan import Plan
from fallline.profile.results import Results
from fallline.profile.room import BATCH, room_of
from fallline.profile.trained import Ended, memory_limited
from fallline.workloads import WorkloadError
from fallline.workloads.loading import load, with_settings

BUDGET, LARGEST = "budget", "largest"


def find_largest(plan: Plan, results: Results, budget: int, notice: Callable[[str], None]) -> None:
    """Stores the largest batch of every arm; those of the baseline and of the most sparing one are run."""
    if plan.axis == BATCH and plan != results.plans()[0]:
        return  # the answer does not depend on the batch
    record = results.load(plan)
    if record.facts.get(BUDGET) == budget and LARGEST in record.facts:
        return
    room = room_of(plan, plan.loaded())
    found: dict[str, dict[str, Any]] = {}
    for arm in plan.arms:
        fit = room.largest(arm, budget)
        if fit is not None:
            found[arm.label] = dataclasses.asdict(fit)
    for label in _to_confirm(found, plan.baseline):
        notice(f"  {label}: running a batch of {found[label]['batch']}, the largest that should fit")
        try:
            found[label]["measured"] = _measured(plan, label, found[label]["batch"])
        except (Ended, WorkloadError) as reason:
            found[label]["failed"] = str(reason)
    results.add_facts(plan, **{BUDGET: budget, LARGEST: found, "largest_missing": room.missing})


def _to_confirm(found: Mapping[str, Mapping[str, Any]], baseline: str) -> list[str]:
    possible = {label: fit["batch"] for label, fit in found.items() if fit["batch"]}
    if not possible:
        return []
    most = max(possible, key=lambda label: possible[label])
    return [label for label in dict.fromkeys((baseline, most)) if label in possible]


def _measured(plan: Plan, label: str, batch: int) -> int | None:
    """The peak in tensors of a run at this batch."""

    name, settings = with_settings(plan.workload)
    sized = load(name, {**settings, BATCH: float(batch)})
    with memory_limited():
        peak = look_at(plan, label, sized, total_steps=10)["peak_bytes"]
    return None if peak is None else int(peak)
