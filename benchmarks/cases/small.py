"""Many small tensors: here Python and launches cost the time, not memory."""

from __future__ import annotations

from benchmarks.arms import OURS, TORCH
from benchmarks.rows import Result
from benchmarks.settings import Settings
from benchmarks.steps import compare

BARS = {(100, 1024): 5.0, (1000, 1024): 5.0, (32, 16384): 2.0}


def run(settings: Settings) -> Result:
    found = {
        (count, elements): compare(count, elements, (OURS, TORCH), [(TORCH, OURS)], settings)
        for count, elements in BARS
    }
    return Result(
        [steps.row("small", OURS, TORCH, BARS[shape]) for shape, steps in found.items()],
        {steps.shape: steps.as_json() for steps in found.values()},
    )
