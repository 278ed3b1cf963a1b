"""Records with known answers, without measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fallline.step.plan import PROBE, Cell, Plan, arms_of, grid
from fallline.step.results import ArmRecord, CellRecord

Seconds = Callable[[Cell, str], float]


def plan_of(tensors: list[int], sizes: list[int], names: list[str] | None = None) -> Plan:
    arms = arms_of("adam", names or ["compiled", "eager", "fused"], {"amsgrad": True}, "float32")
    return Plan("adam-grid", tuple(grid(tensors, sizes, arms)))


def record(
    cell: Cell, seconds: Mapping[str, float], *, noise: float = 0.03, rounds: int = 18, probe: float | None = None
) -> CellRecord:
    """An arm takes so long, give or take the noise; the probe moves 36 bytes per parameter at 40 GB/s."""
    draw = np.random.default_rng([cell.elements, len(cell.shapes), rounds])
    moved = 36.0 * cell.elements
    arms = {}
    for name, value in {**seconds, PROBE: probe or moved / 40e9}.items():
        samples = (value * np.exp(draw.normal(0, noise, rounds))).tolist()
        arms[name] = ArmRecord(name, None, samples, {"bytes_moved": moved, "first_seconds": value, "launches": 1})
    return CellRecord(cell, arms, {"looks": 3, "probe": {"bytes": moved}, "wrong": None, "rounds": rounds})


def records(plan: Plan, seconds: Seconds, **options: float) -> list[CellRecord]:
    return [
        record(cell, {arm.label: seconds(cell, arm.label) for arm in cell.arms}, **options)  # type: ignore[arg-type]
        for cell in plan.cells
    ]


def slower_than_the_probe(factors: Mapping[str, float]) -> Seconds:
    """So many times what the probe takes."""
    return lambda cell, name: factors[name] * 36.0 * cell.elements / 40e9
