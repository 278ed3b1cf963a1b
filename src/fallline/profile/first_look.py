"""A first look at each arm alone: the bytes of a step, the warm-up of compilation, a first guess of its speed.

Peaks are of step 2 and later, when states exist. Bytes in tensors do not depend on the allocator, and their differences
between arms are those of the states; the process's resident peak is shown beside them as what it is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_iter

from fallline.measure import gpu
from fallline.measure.memory import peak_resident, reset_peak_resident, trim_malloc
from fallline.memory.live import LiveBytes, held_by_states
from fallline.memory.model import memory_of
from fallline.optim.optimizer import RuleOptimizer
from fallline.profile.plan import Plan
from fallline.profile.trained import Ended, TrainedArm, ended_at
from fallline.training.loop import Loop
from fallline.workloads import Workload

Told = Callable[[str, Mapping[str, Any]], None]
"""Tells an arm's facts as soon as they are known."""


def look_at(plan: Plan, label: str, workload: Workload, total_steps: int) -> dict[str, Any]:
    """The facts of one arm; raises :class:`Ended` where it cannot be trained."""
    trim_malloc()
    reset = reset_peak_resident()
    facts: dict[str, Any] = {}
    with _nothing_compiled(plan.compiled):
        trained = TrainedArm(plan, plan.arm(label), workload, plan.seed, total_steps, plan.compiled)
        facts |= _speed(trained)
    if plan.compiled:
        facts |= _gpu(trained, plan.device)
        # Compiled code allocates where no mode of torch sees it.
        del trained
        trained = TrainedArm(plan, plan.arm(label), workload, plan.seed, total_steps, False)
        trained.step()
        facts |= _memory(trained)
    else:
        facts |= _memory(trained)
        facts |= _gpu(trained, plan.device)
    facts["resident_peak"] = peak_resident() if reset else None
    facts["device_peak"] = _device_peak(plan.device)
    return facts


def _nothing_compiled(compiled: bool) -> contextlib.AbstractContextManager[Any]:
    """Every arm pays for its own compilation, whoever comes first: nothing in the process or on disk serves it."""
    if not compiled:
        return contextlib.nullcontext()
    from torch._inductor.utils import fresh_inductor_cache

    torch._dynamo.reset()
    fresh: contextlib.AbstractContextManager[Any] = fresh_inductor_cache()
    return fresh


def _speed(trained: TrainedArm) -> dict[str, Any]:
    """Seconds of the first step and of the second; the difference is the warm-up."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        trained.step()
        times.append(time.perf_counter() - start)
    return {"first_seconds": times[0], "second_seconds": times[1], "warm_up_seconds": max(0.0, times[0] - times[1])}


def _memory(trained: TrainedArm) -> dict[str, Any]:
    training = trained.training
    optimizer = training.optimizer.optimizer
    parameters = list(training.model.parameters())
    facts: dict[str, Any] = {
        "parameters": sum(param.numel() for param in parameters),
        "parameter_bytes": sum(param.numel() * param.element_size() for param in parameters),
        "state_bytes": held_by_states(optimizer),
        "modelled_state_bytes": memory_of(optimizer).optimizer if isinstance(optimizer, RuleOptimizer) else None,
        "lowerings": _lowerings(optimizer),
    }
    if any(is_traceable_wrapper_subclass(tensor) for tensor in _held(trained)):
        # Such an optimizer may compile itself; if torch sees it watched, it refuses to for the rest of the process.
        return facts | _unknown_peak("states are tensors of a class of their own")
    with ended_at(trained.done + 1):
        try:
            with LiveBytes(_held(trained)) as live:
                before = live.now
                trained.step()
                loop = training.loop
                if isinstance(loop, Loop) and loop.curvature is not None:
                    loop.curvature.update(loop.model, loop.batch, loop.optimizer, loop.precision)
            facts |= {"peak_bytes": live.peak, "held_bytes": before}
        except (NotImplementedError, AttributeError, TypeError) as error:
            # Tensors of a class of their own have no storage to count.
            facts |= _unknown_peak(str(error))
    return facts


def _unknown_peak(reason: str) -> dict[str, Any]:
    return {"peak_bytes": None, "held_bytes": None, "peak_missing": reason.partition("\n")[0][:200]}


def _held(trained: TrainedArm) -> Iterable[Tensor]:
    """All tensors that live between steps."""
    yield from trained.training.model.parameters()
    yield from trained.training.model.buffers()
    for state in trained.training.optimizer.optimizer.state.values():
        yield from (value for value in tree_iter(dict(state)) if isinstance(value, Tensor))


def _lowerings(optimizer: Any) -> list[str]:
    """The lowering that runs the steps of an optimizer of fallline's."""
    if not isinstance(optimizer, RuleOptimizer):
        return []
    return list(dict.fromkeys(part.lowering for part in optimizer.explain().parts))


def _gpu(trained: TrainedArm, device: str) -> dict[str, Any]:
    """The use of the GPU while this arm alone takes steps; nothing where there is no GPU."""
    try:
        found = gpu.use_during(trained.step, device)
    except (gpu.Unreadable, Ended) as reason:
        return {"gpu_use": None, "gpu_bytes": None, "gpu_missing": str(reason)}
    return {} if found is None else {"gpu_use": found.percent, "gpu_bytes": found.bytes}


def _device_peak(device: str) -> int | None:
    """The allocator's peak on an accelerator; not run on one yet."""
    if not device.startswith("cuda"):
        return None
    return int(torch.cuda.max_memory_allocated(device))


__all__ = ["Ended", "Told", "look_at"]
