"""Every rule in float32 on GPT-2 small's shapes: bytes moved, GB/s, and the part of the bandwidth that it uses.

The limit of a step is the probe with the same streams, pass by pass: a rule with reductions goes through memory
more than once, and each pass has its own sweep.
"""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Iterable, Sequence
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

ELEMENTWISE_BAR, REDUCTIONS_BAR = 0.85, 0.70
AT_ONCE = 4
"""Rules per run: their states and the probe's streams lie in memory together."""

OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    "qhm": {"momentum": 0.9},
    "prodigy": {"d0": 1e-4},
    "schedule_free_prodigy": {"d0": 1e-4},
}
"""Where the defaults are not what people run."""


def names() -> list[str]:
    """All rules; presets run the kernels of what they are presets of."""
    return [name for name in fallline.list_optimizers() if fallline.info(name).preset_of is None]


def run(settings: Settings, only: Sequence[str] = ()) -> Result:
    shapes = gpt2_small(6 if settings.quick else 1)
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    wanted = sorted(only or names(), key=lambda name: passes(name, **OPTIONS.get(name, {})).__repr__())
    for streams, group in itertools.groupby(wanted, lambda name: passes(name, **OPTIONS.get(name, {}))):
        for chunk in _chunks(list(group), AT_ONCE):
            samples, ahead = _measure(streams, chunk, shapes, settings)
            rows += [_row(name, streams, samples, shapes) for name in chunk]
            raw[", ".join(chunk)] = {"passes": repr(streams), "ahead": ahead, **samples.as_json()}
    return Result(rows, raw)


def _chunks(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _measure(
    streams: Sequence[Pass], chunk: Sequence[str], shapes: Sequence[tuple[int, ...]], settings: Settings
) -> tuple[Samples, list[int]]:
    params = tensors(shapes, settings.seed)
    made = {name: fallline.create(name, params, **_settings(name)) for name in chunk}
    elements = sum(map(math.prod, shapes))
    sweeps = [Sweep(one.reads, one.writes, elements, settings.threads) for one in streams]
    ahead = [sweep.best_distance(seed=settings.seed) for sweep in sweeps]

    def probe() -> None:
        for sweep, distance in zip(sweeps, ahead, strict=True):
            sweep.run(distance)

    note(f"every_rule, {_streams_text(streams)}: {', '.join(chunk)}")
    arms = {name: optimizer.step for name, optimizer in made.items()}
    samples = interleave({**arms, PROBE: probe}, settings, [(PROBE, name) for name in chunk])
    note(f"  {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
    made.clear()
    arms.clear()
    gc.collect()
    return samples, ahead


def _settings(name: str) -> dict[str, Any]:
    """A rate that leaves the weights where they are, so that no arm computes with other numbers than the next."""
    rate = {} if name in ("prodigy", "schedule_free_prodigy") else {"lr": 1e-5}
    return {**rate, **OPTIONS.get(name, {})}


def _streams_text(streams: Sequence[Pass]) -> str:
    return " + ".join(f"{one.reads}r{one.writes}w" for one in streams)


def _row(name: str, streams: Sequence[Pass], samples: Samples, shapes: Sequence[tuple[int, ...]]) -> Row:
    elements = sum(map(math.prod, shapes))
    moved = sum(one.bytes_per_parameter for one in streams)
    giga = moved * elements / 1e9
    step, limit = samples.median(name), samples.median(PROBE)
    ratio = samples.ratio(PROBE, name)
    return Row(
        "every_rule",
        f"{fallline.info(name).class_name}, {elements / 1e6:.0f} M parameters, {moved} bytes moved per parameter",
        f"the probe, {_streams_text(streams)}",
        ELEMENTWISE_BAR if len(streams) == 1 else REDUCTIONS_BAR,
        unit=" of it",
        value=ratio,
        ours=f"{milliseconds(step)}, {giga / step.value:.3g} GB/s",
        theirs=f"{milliseconds(limit)}, {giga / limit.value:.3g} GB/s",
        note="above the limit: suspect" if ratio.low > 1.05 else "",
    )
