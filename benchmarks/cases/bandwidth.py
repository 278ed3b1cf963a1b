"""Every optimizer in float32 against the limit: the probe with as many streams over as many elements.

The time of the probe over the time of the step is the part of the machine's bandwidth that the step uses.
"""

from __future__ import annotations

import gc
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import fallline
from benchmarks.arms import tensors
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.shapes import gpt2_small
from benchmarks.steps import PROBE, note
from benchmarks.timing import Samples, interleave
from fallline.measure.bandwidth import Sweep
from fallline.measure.traffic import Pass, passes

BAR = 0.90
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("sgd", {}),
    "SGD, momentum": ("sgd", {"momentum": 0.9}),
    "SGD, Nesterov": ("sgd", {"momentum": 0.9, "nesterov": True}),
    "Lion": ("lion", {}),
    "Adagrad": ("adagrad", {}),
    "RMSprop": ("rmsprop", {}),
    "RMSprop, centered, momentum": ("rmsprop", {"centered": True, "momentum": 0.9}),
    "Adam": ("adam", {}),
    "AMSGrad": ("amsgrad", {}),
    "AdamW": ("adamw", {}),
}


def run(settings: Settings) -> Result:
    shapes = gpt2_small(6 if settings.quick else 1)
    by_streams: dict[Pass, list[str]] = defaultdict(list)
    for label, (name, options) in OPTIMIZERS.items():
        by_streams[passes(name, **options)[-1]].append(label)
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    for streams, labels in by_streams.items():
        samples, ahead = _measure(streams, labels, shapes, settings)
        rows += [_row(label, streams, samples, shapes) for label in labels]
        raw[f"{streams.reads} read, {streams.writes} written"] = {"ahead": ahead, **samples.as_json()}
    return Result(rows, raw)


def _measure(
    streams: Pass, labels: Sequence[str], shapes: Sequence[tuple[int, ...]], settings: Settings
) -> tuple[Samples, int]:
    params = tensors(shapes, settings.seed)
    made = {label: OPTIMIZERS[label] for label in labels}
    arms = {label: fallline.create(name, params, lr=1e-5, **options).step for label, (name, options) in made.items()}
    sweep = Sweep(streams.reads, streams.writes, sum(map(math.prod, shapes)), settings.threads)
    ahead = sweep.best_distance(seed=settings.seed)
    note(f"bandwidth, {streams.reads} read, {streams.writes} written: {', '.join(labels)}")
    samples = interleave({**arms, PROBE: lambda: sweep.run(ahead)}, settings, [(PROBE, label) for label in labels])
    note(f"  {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
    del arms
    gc.collect()
    return samples, ahead


def _row(label: str, streams: Pass, samples: Samples, shapes: Sequence[tuple[int, ...]]) -> Row:
    elements = sum(map(math.prod, shapes))
    moved = streams.bytes_per_parameter * elements / 1e9
    step, limit = samples.median(label), samples.median(PROBE)
    return Row(
        "bandwidth",
        f"{label}, {len(shapes)} tensors, {elements / 1e6:.1f} M parameters, float32",
        f"the probe, {streams.reads} read and {streams.writes} written",
        BAR,
        unit=" of it",
        value=samples.ratio(PROBE, label),
        ours=f"{milliseconds(step)}, {moved / step.value:.3g} GB/s",
        theirs=f"{milliseconds(limit)}, {moved / limit.value:.3g} GB/s",
    )
