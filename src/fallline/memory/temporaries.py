"""The memory that a step works in, besides parameters, gradients and states, counted on tensors without memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fallline.lower.chain import Batch, ChainExecutor
from fallline.lower.executor import StepScalars
from fallline.lower.item import real_shape
from fallline.lower.matrix_calls import turns
from fallline.memory.live import LiveBytes, held_by
from fallline.optim.group_reader import RULE
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS
from fallline.rules.chain import Chain

FLAGS: Mapping[str, Mapping[str, bool]] = {
    "eager": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
}
"""Lowerings in torch operations, which allocate."""
NATIVE = ("native", "native each")

BUSIEST: Mapping[str, float] = {"when": 1.0, "begins": 0.0, "renewed": 1.0}
"""Numbers with which a matrix function does everything that it does in some steps only."""


class WorkingMemory(NamedTuple):
    """The bytes that a step works in, besides parameters, gradients and states."""

    temporaries: int
    """Those at the peak of a step, of which nothing is left after it."""
    scratch: int
    """Those in which matrix functions find and leave values; they are kept from step to step."""


def working_memory(optimizer: RuleOptimizer, lowering: str) -> WorkingMemory:
    """The memory of a step by this lowering, over the parameters that require a gradient.

    Native kernels allocate nothing.  Matrix functions, which are torch's in every lowering, allocate most in a step in
    which they refresh their matrices; that step counts.
    """
    native = lowering in NATIVE
    if not native and lowering not in FLAGS:
        known = ", ".join((*FLAGS, *NATIVE))
        raise ValueError(f"the temporaries of the lowering {lowering!r} cannot be counted; those of {known} can")
    if native and not _calls_matrix_functions(optimizer):
        return WorkingMemory(0, 0)
    with MadeUpValues():
        twin = _twin(optimizer, FLAGS["eager" if native else lowering])
        twin.step()  # makes the states, and the scratch memory of matrix functions
        of_calls = _most_of_a_call(twin)
        return WorkingMemory(of_calls if native else max(of_calls, allocated_by_step(twin)), held_by(_scratch(twin)))


def _calls_matrix_functions(optimizer: RuleOptimizer) -> bool:
    return any(
        isinstance(optimizer._readers.of(group).program(group, len(real_shape(param))), Chain)
        for group in optimizer.param_groups
        for param in group["params"]
        if param.requires_grad or param.grad is not None
    )


def _chains(optimizer: Any) -> list[ChainExecutor]:
    """The executors that call matrix functions, after a step."""
    plan = optimizer._plan if isinstance(optimizer, RuleOptimizer) else None
    executors = [bucket.executor for bucket in plan.buckets] if plan is not None else []
    return [executor for executor in executors if isinstance(executor, ChainExecutor)]


def _scratch(optimizer: Any) -> list[Tensor]:
    """The memory of matrix functions, which is kept from step to step."""
    return [tensor for executor in _chains(optimizer) for tensor in executor.memory.values()]


def _most_of_a_call(optimizer: RuleOptimizer) -> int:
    """The most that one matrix function allocates, in whichever step that is."""
    plan = optimizer._plan
    assert plan is not None
    buckets = [bucket for bucket in plan.buckets if isinstance(bucket.executor, ChainExecutor)]
    numbers = plan.scalars.read(optimizer.param_groups, [(bucket, range(len(bucket.items))) for bucket in buckets])
    most, known = 0, set[Hashable]()
    with torch.no_grad():
        for executor, scalars in zip(_chains(optimizer), numbers, strict=True):
            for batch in executor.batches:
                for facts, run in _calls(batch, scalars):
                    if facts not in known:
                        known.add(facts)
                        most = max(most, _allocated_by(run, _memory_of_batch(batch)))
    return most


def _calls(batch: Batch, scalars: StepScalars) -> Iterator[tuple[Hashable, Callable[[], None]]]:
    """The calls of a batch at their busiest, each with the facts that its temporaries follow from."""
    everyone = range(len(batch.items))
    for link in batch.chain.links:
        for call, numbers in zip(link.calls, link.numbers, strict=True):
            for members, values in batch.by_numbers(scalars, numbers, everyone):
                busy = {**values, **{name: value for name, value in BUSIEST.items() if name in values}}
                busy.pop("when", None)
                squares = [batch.matrices(state, members) for state in call.states.values()]
                for due, turn in turns(squares, busy.get("turn", 0.0), busy.get("every", 1.0)):
                    now = {**busy, "turn": turn} if "turn" in busy else busy
                    facts = call, batch.shape, batch.items[0].dtype, tuple(members), due
                    yield facts, functools.partial(batch.call, call, members, now)


def _memory_of_batch(batch: Batch) -> list[Tensor]:
    return [*batch.scratch.values(), *(tensor for item in batch.items for tensor in item.small.values())]


def _allocated_by(run: Callable[[], Any], held: Iterable[Tensor]) -> int:
    """The bytes at the peak of a run, beyond those held before."""
    with LiveBytes(held) as live:
        before = live.now
        run()
    return live.peak - before


def _twin(optimizer: RuleOptimizer, flags: Mapping[str, bool]) -> RuleOptimizer:
    """The same optimizer over parameters without memory, all of which have a gradient."""
    groups = []
    for group in optimizer.param_groups:
        known = {RULE, *GROUP_OPTIONS, *optimizer._readers.of(group).description.defaults}
        options = {name: value for name, value in group.items() if name in known}
        params = [on_meta(param) for param in group["params"] if param.requires_grad or param.grad is not None]
        groups.append({**options, **flags, "compiled": False, "lowering": None, "params": params})
    settings = {name: value for name, value in optimizer.defaults.items() if name in optimizer.description.defaults}
    return type(optimizer)(groups, **{**settings, **flags})


def on_meta(param: Tensor) -> torch.nn.Parameter:
    """A parameter of the same shape, dtype and layout with a gradient, both without memory; ``param`` may be fake."""
    made = torch.nn.Parameter(torch.empty_like(param, device="meta"), requires_grad=param.requires_grad)
    made.grad = torch.empty_like(made)
    return made


def allocated_by_step(optimizer: Any) -> int:
    """Takes a step and counts the bytes at its peak, beyond those held before."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return _allocated_by(optimizer.step, [*_held(optimizer, params), *_scratch(optimizer)])


def _held(optimizer: Any, params: Iterable[Tensor]) -> Iterable[Tensor]:
    for param in params:
        yield param
        if param.grad is not None:
            yield param.grad
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


class MadeUpValues(TorchDispatchMode):
    """Gives rules that read a sum between passes (LAMB, Prodigy, Amos) the number 1 in place of missing memory."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        from_meta = bool(args) and isinstance(args[0], Tensor) and args[0].is_meta
        if from_meta and function is torch.ops.aten._local_scalar_dense.default:
            return 1.0
        if from_meta and function is torch.ops.aten._to_copy.default and options.get("device") == torch.device("cpu"):
            return torch.ones(args[0].shape, dtype=options.get("dtype") or args[0].dtype)
        return function(*args, **options)
