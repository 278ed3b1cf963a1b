"""Many small tensors: here Python and launches cost the time, not memory.

In a sample an implementation repeats its step and finds its own data in the caches.  In a training loop it does not, so
the steps of both also alternate, one call of each: every call then finds caches that the other has used.
"""

from __future__ import annotations

import dataclasses

from benchmarks.arms import OURS, TORCH
from benchmarks.rows import Result
from benchmarks.settings import Settings
from benchmarks.steps import compare

BARS = {(100, 1024): 5.0, (1000, 1024): 5.0, (32, 16384): 2.0}
ALTERNATING = {(100, 1024): 5.0, (1000, 1024): 5.0}
"""Their aim is 8."""


def run(settings: Settings) -> Result:
    found = {
        (count, elements): compare(count, elements, (OURS, TORCH), [(TORCH, OURS)], settings)
        for count, elements in BARS
    }
    single_calls = dataclasses.replace(settings, sample_seconds=0.0)
    alternating = {
        (count, elements): compare(count, elements, (OURS, TORCH), [(TORCH, OURS)], single_calls)
        for count, elements in ALTERNATING
    }
    rows = [steps.row("small", OURS, TORCH, BARS[shape]) for shape, steps in found.items()]
    for shape, steps in alternating.items():
        row = steps.row("small", OURS, TORCH, ALTERNATING[shape])
        rows.append(dataclasses.replace(row, what=f"{row.what}, single calls that alternate"))
    raw = {steps.shape: steps.as_json() for steps in found.values()}
    raw |= {f"{steps.shape}, alternating": steps.as_json() for steps in alternating.values()}
    return Result(rows, raw)
