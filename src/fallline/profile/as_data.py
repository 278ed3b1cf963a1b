"""A profile for programs: raw numbers under stable keys, and the name of the samples behind them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.measure.student import MeanInterval
from fallline.profile.estimate import CellEstimate
from fallline.profile.observations import observations
from fallline.profile.results import CellRecord
from fallline.profile.subject import Subject


def as_data(cell: CellEstimate, subject: Subject) -> dict[str, Any]:
    """A cell with stable keys and raw numbers."""
    plan = cell.record.plan
    return {
        "label": plan.label,
        "plan": plan.definition(),
        "key": plan.key,
        "counts": None if cell.record.counts is None else dataclasses.asdict(cell.record.counts),
        "clock": cell.clock,
        "off_processor": cell.off_processor,
        "phase_gap": cell.phase_gap,
        "unit": cell.unit[0],
        "per_step": {"tokens": cell.tokens, "positions": cell.positions, "samples": cell.samples},
        "arms": {label: _arm_data(cell, label) for label in cell.record.arms},
        "observations": observations(cell, subject),
    }


def _arm_data(cell: CellEstimate, label: str) -> dict[str, Any]:
    arm, facts = cell.arms.get(label), cell.record.arms[label]
    data: dict[str, Any] = {"status": facts.status, "facts": facts.facts}
    if arm is None:
        return data
    rate = cell.unit[1] / arm.seconds
    return _finite(
        data
        | {
            "rate": rate,
            "seconds_per_step": arm.seconds,
            "whole_seconds": arm.whole,
            "cpu_seconds": arm.cpu,
            "phases": dict(arm.phases),
            "share": arm.share,
            "steps": arm.steps,
            "delta": _interval(arm.delta),
            "whole_delta": _interval(arm.whole_delta),
            "alike": _interval(arm.alike),
            "values": list(arm.values),
            "loss_delta": _interval(arm.loss_delta),
            "faults": list(arm.faults),
            "not_finite": arm.diverged,
        }
    )


def _interval(found: MeanInterval | None) -> dict[str, Any] | None:
    return None if found is None else dataclasses.asdict(found)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def data_id(records: Sequence[CellRecord]) -> str:
    """A name for the samples; other samples have another one."""
    content = [
        [record.plan.key, [[s.repeat, s.arm, s.step, s.loss, dict(s.seconds)] for s in record.steps]]
        for record in records
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
