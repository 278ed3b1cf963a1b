"""Tensors far beyond the caches: memory traffic costs the time, and fewer bits are less traffic."""

from __future__ import annotations

from benchmarks.arms import DEEPSPEED, OURS, OURS_INT8, TORCH
from benchmarks.rows import Result
from benchmarks.settings import Settings
from benchmarks.steps import compare

BARS = {(OURS, TORCH): 1.0, (OURS, DEEPSPEED): 0.95, (OURS_INT8, TORCH): 1.35}


def run(settings: Settings) -> Result:
    names = (OURS, OURS_INT8, TORCH, DEEPSPEED)
    pairs = [(peer, ours) for ours, peer in BARS]
    steps = compare(32, settings.elements(4194304), names, pairs, settings)
    rows = [steps.row("large", ours, peer, bar) for (ours, peer), bar in BARS.items()]
    return Result(rows, {steps.shape: steps.as_json()})
