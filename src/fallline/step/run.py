"""Measures cells: all arms side by side, with the bandwidth probe as one more arm."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import Parameter

from fallline.measure import gates, known_speeds, load, machine
from fallline.measure.affinity import pinned
from fallline.measure.bandwidth import MAX_READS, MAX_WRITES, Sweep
from fallline.measure.clock import CacheFlush, wait_for
from fallline.measure.interleave import (
    LOOKS,
    Rule,
    Thinning,
    for_rounds,
    interleave,
    rounds_between,
    rounds_between_slowest,
    until_all,
    until_decided,
)
from fallline.measure.memory import trim_malloc
from fallline.measure.traffic import passes
from fallline.step.arms import arms_with_room, build_arms, tensors
from fallline.step.implementations import build, named
from fallline.step.launches import count_launches
from fallline.step.plan import PART, PROBE, Arm, Cell, Plan
from fallline.step.results import ArmRecord, CellRecord, Results


@dataclasses.dataclass(frozen=True)
class Limits:
    seconds: float = 20.0
    """Seconds per cell after the first look."""
    seed: int = 0
    sample_seconds: float = 0.002
    """Shorter calls are repeated until a sample lasts this long, unless caches are flushed or steps are counted."""
    told: Callable[[Cell, int, int], None] | None = None
    """Called after every round with the number of rounds done, and the number at which they may end."""


Tell = Callable[[Cell, "CellRecord | None"], None]
"""Called before and after each cell."""


def measure_all(plan: Plan, results: Results, limits: Limits, tell: Tell) -> None:
    """Measures the cells that the file does not hold yet."""
    done = results.done(plan.cells)
    measure_cells(plan, {cell: None for cell in plan.cells if cell.key not in done}, results, limits, tell)


def measure_cells(plan: Plan, cells: Mapping[Cell, str | None], results: Results, limits: Limits, tell: Tell) -> None:
    """Measures these cells of a plan in random order; each comes with the reason if it is measured a second time."""
    shuffled = list(cells)
    random.Random(limits.seed).shuffle(shuffled)
    threads = torch.get_num_threads()
    with _compiling_afresh(shuffled):
        try:
            for cell in shuffled:
                tell(cell, None)
                record = measure(cell, limits, plan.family(cell))
                if cells[cell] is not None:
                    _note_second(record, results.load([cell]), cells[cell])
                results.put(record)
                tell(cell, record)
        finally:
            torch.set_num_threads(threads)


def _note_second(record: CellRecord, earlier: Sequence[CellRecord], why: str | None) -> None:
    """Adds the reason why a cell was measured again, and the compile times, which only the first time shows."""
    record.facts["again"] = why
    for name, arm in record.arms.items():
        took = [first for old in earlier if name in old.arms and (first := old.arms[name].facts.get("first_seconds"))]
        if took and arm.facts.get("first_seconds") is not None:
            arm.facts["first_seconds"] = max(arm.facts["first_seconds"], *took)


def _compiling_afresh(cells: Sequence[Cell]) -> contextlib.AbstractContextManager[Any]:
    """Switches the caches of the compiler off, so that compile times are those of a first use."""
    if not any(named(arm.implementation).compiles for cell in cells for arm in cell.arms):
        return contextlib.nullcontext()
    import torch._inductor.config

    patched: contextlib.AbstractContextManager[Any] = torch._inductor.config.patch(force_disable_caches=True)
    return patched


def measure(cell: Cell, limits: Limits, family: int) -> CellRecord:
    torch.set_num_threads(cell.threads)
    records = {arm.label: ArmRecord(arm.label) for arm in cell.arms}
    facts: dict[str, Any] = {
        "looks": 1 if cell.steps else len(LOOKS),
        "working_set": cell.working_set(),
        "elements": cell.elements,
        "load": machine.load_average(),
        "wrong": None,
    }
    able = arms_with_room(cell, records)
    with pinned(cell.threads if cell.pinned else None):
        facts["pinning"] = machine.pinning()
        if able:
            _build_and_time(cell, able, records, facts, limits, family)
    trim_malloc()
    return CellRecord(cell, records, facts)


def _build_and_time(
    cell: Cell,
    able: Sequence[Arm],
    records: dict[str, ArmRecord],
    facts: dict[str, Any],
    limits: Limits,
    family: int,
) -> None:
    params = tensors(cell, limits.seed)
    optimizers = build_arms(able, params, records, cell.dtype)
    facts["wrong"] = _wrong(params, optimizers)
    if facts["wrong"] is None and optimizers:
        _time(cell, optimizers, records, facts, limits, family)
        facts["wrong"] = _wrong(params, optimizers)


def _time(
    cell: Cell,
    optimizers: dict[str, Any],
    arms: dict[str, ArmRecord],
    facts: dict[str, Any],
    limits: Limits,
    family: int,
) -> None:
    cache = machine.last_level_cache()
    flush = CacheFlush(cache) if cell.flush else None
    sweep = probe_of(cell)
    ahead = sweep.best_distance(seed=limits.seed, before=flush)
    names = list(optimizers)
    meter = load.Meter()
    samples = interleave(
        {**{name: optimizer.step for name, optimizer in optimizers.items()}, PROBE: lambda: sweep.run(ahead)},
        _telling(cell, _rule(cell, names, limits.seconds, family), limits.told),
        seed=limits.seed,
        sample_seconds=0.0 if cell.steps else limits.sample_seconds,
        before=flush,
        wait=wait_for("cpu"),
        thin=None if cell.steps else _thinning(cell, names, limits.seconds, family),
        in_cache=not cell.flush and cell.working_set() <= cache,
    )
    facts |= _circumstances(cell, sweep, samples.seconds[PROBE], meter)
    arms[PROBE] = ArmRecord(PROBE)
    for name, seconds in samples.seconds.items():
        arms[name].seconds = seconds
        arms[name].facts |= {
            "calls": samples.calls[name],
            "warm_up": samples.warm_up[name],
            "every": samples.every.get(name, 1),
        }
    for arm in cell.arms:
        if arm.label in optimizers:
            arms[arm.label].facts["launches"] = _launches(cell, arm, optimizers[arm.label])
    facts |= {
        "stopped": samples.stopped,
        "rounds": samples.rounds,
        "probe": {"bytes": sweep.bytes, "method": sweep.method, "ahead": ahead, "threads": sweep.threads},
    }


def _circumstances(cell: Cell, sweep: Sweep, seconds: Sequence[float], meter: load.Meter) -> dict[str, Any]:
    """The share of the machine that the rounds got, and whether it is too small for a verdict."""
    share = meter.share(cell.threads)
    speed = sweep.bytes / statistics.median(seconds) / 1e9
    streams = (sweep.reads, sweep.writes)
    key = known_speeds.key_of(machine.cpu_model(), sweep.method, sweep.threads, streams, sweep.bytes, cell.flush)
    busy = load.reason(share, speed, known_speeds.fastest(key))
    known_speeds.remember(key, speed, make_folder=True)
    return {"share": dataclasses.asdict(share), "busy": busy}


def _thinning(cell: Cell, names: Sequence[str], seconds: float, family: int) -> Thinning:
    compiling = [arm.label for arm in cell.arms if named(arm.implementation).compiles]
    return Thinning(names, rounds_between(family), seconds, rounds_between_slowest(family), compiling)


def _rule(cell: Cell, able: Sequence[str], seconds: float, family: int) -> Rule:
    """Ends after the number of steps asked for, or when the fastest implementation of every optimizer is known."""
    if cell.steps:
        return for_rounds(cell.steps)
    rivals = [[name for name in names if name in able] for names in cell.groups.values()]
    return until_all([until_decided(names, seconds=seconds, family=family) for names in rivals])


def _telling(cell: Cell, rule: Rule, told: Callable[[Cell, int, int], None] | None) -> Rule:
    """The same rule, which also reports progress; every round has a sample of the probe."""
    if told is None:
        return rule

    def enough(found: Mapping[str, list[float]]) -> str | None:
        done = len(found[PROBE])
        told(cell, done, cell.steps or next((look for look in LOOKS if look >= done), done))
        return rule(found)

    return enough


def _launches(cell: Cell, arm: Arm, optimizer: Any) -> int | None:
    try:
        if cell.elements > PART:  # smaller tensors of the same count and axes launch as many kernels, in less time
            twins = dataclasses.replace(cell, shapes=tuple((2,) * len(shape) for shape in cell.shapes))
            optimizer = build(arm.implementation, arm.optimizer, tensors(twins, 0), dict(arm.options), arm.state_dtype)
            optimizer.step()
        return count_launches(optimizer) or None  # 0: kernels that no profiler sees
    except Exception:  # a peer that a profiler disturbs is still timed
        return None


def probe_of(cell: Cell) -> Sweep:
    """The probe: as many streams as the largest last pass of any arm, over about as much memory as the cell."""
    streams = max((passes(arm.optimizer, **dict(arm.options))[-1] for arm in cell.arms), key=lambda one: one.reads)
    reads = min(streams.reads, MAX_READS)
    elements = max(1, round(cell.probe_bytes() / (4 * reads)))
    return Sweep(reads, min(streams.writes, reads, MAX_WRITES), elements, cell.threads)


def _wrong(params: Sequence[Parameter], optimizers: dict[str, Any]) -> str | None:
    """Invalid inputs or states, by name."""
    found: dict[str, torch.Tensor] = {}
    for index, param in enumerate(params):
        found[f"parameter {index}"] = param.data
        if param.grad is not None:
            found[f"gradient {index}"] = param.grad
        for label, optimizer in optimizers.items():
            for key, value in optimizer.state[param].items():
                if type(value) is torch.Tensor and value.shape == param.shape:
                    found.setdefault(f"{key} {index} of {label}", value)
    seen: dict[int, torch.Tensor] = {}
    distinct = {name: t for name, t in found.items() if seen.setdefault(t.data_ptr(), t) is t}
    return gates.invalid_inputs(distinct, lambda name: name.partition(" ")[0].endswith("_sq"))
