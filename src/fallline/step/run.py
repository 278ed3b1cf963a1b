"""Measures cells: the same tensors for all arms, side by side, with the bandwidth probe as one more arm."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
import os
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import Parameter

from fallline.measure import gates, machine
from fallline.measure.bandwidth import MAX_READS, MAX_WRITES, Sweep
from fallline.measure.clock import CacheFlush, seconds_of
from fallline.measure.interleave import LOOKS, Thinning, for_rounds, interleave, rounds_between, until_decided
from fallline.measure.memory import resident
from fallline.measure.traffic import passes
from fallline.step.implementations import Missing, build, named
from fallline.step.launches import count_launches
from fallline.step.plan import PROBE, Arm, Cell, Plan
from fallline.step.results import ArmRecord, CellRecord, Results

PROBE_CACHES = 12
"""The probe goes through at most so many times the last-level cache: more would be as fast, and take memory."""
PART = 1 << 25
"""Elements whose states are made at once."""
BLOCK = 1 << 20
"""Random numbers drawn at once; larger tensors repeat them, which no kernel notices."""


@dataclasses.dataclass(frozen=True)
class Limits:
    seconds: float = 20.0
    """Per cell, once the first look is over."""
    steps: int | None = None
    """Exactly so many rounds instead."""
    seed: int = 0
    sample_seconds: float = 0.002
    pin: bool = False

    @property
    def looks(self) -> int:
        return 1 if self.steps else len(LOOKS)


def measure_all(plan: Plan, results: Results, limits: Limits, tell: Callable[[Cell, CellRecord | None], None]) -> None:
    """Measures what the file does not hold yet, in random order; ``tell`` is called before and after each cell."""
    done = results.done(plan.cells)
    left = [cell for cell in plan.cells if cell.key not in done]
    random.Random(limits.seed).shuffle(left)
    threads = torch.get_num_threads()
    _compile_afresh()
    try:
        for cell in left:
            tell(cell, None)
            record = measure(cell, limits, plan.family(cell))
            results.add(record)
            tell(cell, record)
    finally:
        torch.set_num_threads(threads)


def _compile_afresh() -> None:
    """No compiler's cache of an earlier process: compile times are those of a first use."""
    import torch._inductor.config

    torch._inductor.config.force_disable_caches = True


def measure(cell: Cell, limits: Limits, family: int) -> CellRecord:
    torch.set_num_threads(cell.threads)
    with pinned(cell.threads if limits.pin else None):
        params = tensors(cell, limits.seed)
        arms = {arm.label: ArmRecord(arm.label) for arm in cell.arms}
        optimizers = build_arms(cell, params, arms)
        facts: dict[str, Any] = {
            "looks": limits.looks,
            "working_set": cell.working_set(),
            "elements": cell.elements,
            "load": machine.load_average(),
            "pinning": machine.pinning(),
            "wrong": _wrong(params, optimizers),
        }
        if facts["wrong"] is None and optimizers:
            _time(cell, optimizers, arms, facts, limits, family)
            facts["wrong"] = _wrong(params, optimizers)
        optimizers.clear()
        del params
        gc.collect()
    return CellRecord(cell, arms, facts)


def _time(
    cell: Cell,
    optimizers: dict[str, Any],
    arms: dict[str, ArmRecord],
    facts: dict[str, Any],
    limits: Limits,
    family: int,
) -> None:
    sweep = probe_of(cell)
    ahead = sweep.best_distance(seed=limits.seed)
    names = list(optimizers)
    if limits.steps:
        rule = for_rounds(limits.steps)
    else:
        rule = until_decided(names, seconds=limits.seconds, family=family)
    steps = {name: optimizer.step for name, optimizer in optimizers.items()}
    samples = interleave(
        {**steps, PROBE: lambda: sweep.run(ahead)},
        rule,
        seed=limits.seed,
        sample_seconds=limits.sample_seconds,
        before=CacheFlush(machine.last_level_cache()) if cell.flush else None,
        thin=None if limits.steps else Thinning(names, rounds_between(family), limits.seconds),
    )
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


def _launches(cell: Cell, arm: Arm, optimizer: Any) -> int | None:
    try:
        if cell.elements > PART:  # as many tensors of as many axes start as many kernels, in less time
            twins = dataclasses.replace(cell, shapes=tuple((2,) * len(shape) for shape in cell.shapes))
            optimizer = build(arm.implementation, arm.optimizer, tensors(twins, 0), dict(arm.options), arm.state_dtype)
            optimizer.step()
        return count_launches(optimizer) or None  # 0: kernels that no profiler sees
    except Exception:  # a peer that a profiler disturbs is still timed
        return None


def tensors(cell: Cell, seed: int) -> list[Parameter]:
    """Parameters with gradients of the usual sizes, the same for every arm."""
    generator = torch.Generator().manual_seed(seed)
    block = torch.randn(BLOCK, generator=generator)
    dtype = getattr(torch, cell.dtype)
    return [_filled(shape, dtype, block) for shape in cell.shapes]


def _filled(shape: tuple[int, ...], dtype: torch.dtype, block: torch.Tensor) -> Parameter:
    count = math.prod(shape)
    param = Parameter(torch.empty(shape, dtype=dtype))
    param.grad = torch.empty(shape, dtype=dtype)
    for target, scale in ((param.data.view(-1), 0.02), (param.grad.view(-1), 1e-3)):
        for start in range(0, count, BLOCK):
            part = target[start : start + BLOCK]
            part.copy_(block[: len(part)]).mul_(scale)
    return param


def build_arms(cell: Cell, params: Sequence[Parameter], records: dict[str, ArmRecord]) -> dict[str, Any]:
    """The optimizers that can be had, one step done; states of one format are the same memory for all of them."""
    made: dict[str, Any] = {}
    pool: dict[tuple[int, str, torch.dtype], torch.Tensor] = {}
    for arm in cell.arms:
        record = records[arm.label]
        record.facts["bytes_moved"] = arm.bytes(cell.dtype).moved * cell.elements
        record.facts["states"] = arm.states
        try:
            check_room(cell, arm)
            optimizer = build(arm.implementation, arm.optimizer, params, dict(arm.options), arm.state_dtype)
            record.facts["first_seconds"] = _make_states(arm, optimizer, params, pool)
        except Missing as reason:
            record.missing = str(reason)
            continue
        made[arm.label] = optimizer
    return made


def check_room(cell: Cell, arm: Arm) -> None:
    """Refuses an arm whose temporaries would not fit beside what the cell holds."""
    free, wanted = machine.available_memory(), cell.held() + cell.temporaries(arm)
    if free is not None and wanted > free + resident_now():
        raise Missing(
            f"does not fit: needs {wanted / 1e9:.1f} GB, {(free + resident_now()) / 1e9:.1f} GB are available"
        )


def resident_now() -> int:
    return resident() or 0


def _make_states(
    arm: Arm, optimizer: Any, params: Sequence[Parameter], pool: dict[tuple[int, str, torch.dtype], torch.Tensor]
) -> float:
    """Steps until all states are there, and puts them into the shared memory; the first step's time.

    In parts of ``PART`` elements: no more than that is held twice, and temporaries are those of a part.
    """
    grads = [param.grad for param in params]
    first = 0.0
    try:
        for part in _parts(params):
            for index, param in enumerate(params):
                param.grad = grads[index] if index in part else None
            seconds = _first_step(arm, optimizer)
            first = first or seconds
            share_states(optimizer, params, pool, part)
    finally:
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
    return first


def _parts(params: Sequence[Parameter]) -> list[range]:
    found, start, held = [], 0, 0
    for index, param in enumerate(params):
        held += param.numel()
        if held >= PART or index == len(params) - 1:
            found.append(range(start, index + 1))
            start, held = index + 1, 0
    return found


def _first_step(arm: Arm, optimizer: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return seconds_of(optimizer.step)
        except Exception as error:
            if named(arm.implementation).ours:
                raise
            first = str(error).splitlines()[0] if str(error) else ""
            raise Missing(f"does not work here ({type(error).__name__}: {first})") from error


def share_states(
    optimizer: Any,
    params: Sequence[Parameter],
    pool: dict[tuple[int, str, torch.dtype], torch.Tensor],
    part: Sequence[int],
) -> None:
    """The same memory for all arms: where states lie relative to parameters can cost half the bandwidth."""
    for index in part:
        param = params[index]
        state = optimizer.state[param]
        for key, value in list(state.items()):
            if type(value) is not torch.Tensor or value.shape != param.shape or key == "step":
                continue
            shared = pool.setdefault((index, key, value.dtype), value)
            if shared is not value:
                state[key] = shared


def probe_of(cell: Cell) -> Sweep:
    """As many streams as the first arm's last pass has, over as much memory as the cell, up to a limit."""
    arm = cell.arms[0]
    streams = passes(arm.optimizer, **dict(arm.options))[-1]
    reads, writes = min(streams.reads, MAX_READS), min(streams.writes, MAX_WRITES)
    most = PROBE_CACHES * machine.last_level_cache()
    elements = max(1, round(min(cell.working_set(), most) / (4 * reads)))
    return Sweep(reads, min(writes, reads), elements, cell.threads)


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


@contextlib.contextmanager
def pinned(count: int | None) -> Iterator[None]:
    """All threads of this process on the first so many processors it may use."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        _pin(set(sorted(before)[:count]))
        yield
    finally:
        _pin(before)


def _pin(processors: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), processors)


def seconds_left(done: Sequence[tuple[Cell, float]], left: Sequence[Cell]) -> float | None:
    """From the time that the finished cells took, per element and per cell."""
    if not done:
        return None
    # Two unknowns, each bounded below by what it would be if it were alone.
    per_cell = min(seconds for _, seconds in done)
    rest = sum(max(0.0, seconds - per_cell) for _, seconds in done)
    per_element = rest / max(1, sum(cell.elements for cell, _ in done))
    return sum(per_cell + per_element * cell.elements for cell in left)
