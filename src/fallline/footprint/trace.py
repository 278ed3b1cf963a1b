"""One training iteration of a model, traced: its allocations, the modules that keep activations, and its operations.

The iteration is that of the one training loop, on fake tensors, which have shapes and no memory, or on real ones. The
optimizer does nothing in it: its bytes are those of :mod:`fallline.memory`, because native kernels take pointers, which
fake tensors do not have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._pytree import tree_map

from fallline.footprint.allocations import Allocations
from fallline.footprint.recomputation import NothingToRecompute, recompute_blocks
from fallline.footprint.setting import Setting
from fallline.footprint.torch_mem_tracker import IterationTracker
from fallline.footprint.trainees import Trainee, Unbuildable
from fallline.training.loop import Loop
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.workloads.errors import WorkloadError

NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)


@dataclasses.dataclass(frozen=True)
class KeptBy:
    """The activations that modules of one place made, and that were kept for the backward pass."""

    place: str
    """The path with numbers left out: ``blocks.*.up``; empty for the model itself and for its loss."""
    type: str
    modules: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Trace:
    model: nn.Module
    """On ``meta`` tensors: for the shapes of its parameters."""
    allocations: Allocations
    kept: list[KeptBy]
    """The largest first."""
    flops: int
    """Those of the matrix products, convolutions and attention of the iteration, recomputation included."""
    recomputed_flops: int
    pieces: int
    """The pieces of the model that are computed twice."""
    batch: int
    """The samples of the traced iteration."""


def trace(trainee: Trainee, setting: Setting, batch: int, sequence: int | None) -> Trace:
    """Traces an iteration without memory."""
    with FakeTensorMode(allow_non_fake_inputs=True), _without_collections():
        try:
            model = trainee.build()
            pieces = prepare(model, setting)
            inputs = cast(trainee.inputs(batch, sequence), setting)
            tracker = IterationTracker(model, inputs)
            with tracker:
                iterate(model, inputs, trainee, setting, tracker)
        except NothingToRecompute as error:
            raise Unbuildable(f"{trainee.spec}: there is nothing to checkpoint: {error}") from None
        except WorkloadError as error:
            raise _without_numbers(trainee, error) from None
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError) as error:
            raise _without_numbers(trainee, error) from None
    found = tracker.allocations()
    _replace(model, lambda param: torch.empty_like(param, device="meta"))
    return Trace(model, found, kept_by(tracker.kept), tracker.flops, tracker.recomputed_flops, pieces, batch)


def prepare(model: nn.Module, setting: Setting) -> int:
    """Gives a model the precision of a setting, and checkpointing; returns the pieces that it computes twice."""
    if setting.weight_dtype is not torch.float32:
        _replace(model, lambda tensor: _cast(tensor, setting.weight_dtype))
    return recompute_blocks(model) if setting.checkpointing else 0


def _replace(model: nn.Module, new: Callable[[Tensor], Tensor]) -> None:
    """Puts new parameters and buffers in place of those of a model; shared ones stay shared.

    ``model.to`` sets the data of parameters, which fake tensors do not allow.
    """
    made: dict[int, tuple[Tensor, Tensor]] = {}

    def once(old: Tensor) -> Tensor:
        if id(old) not in made:
            with torch.no_grad():
                fresh = new(old)
            parameter = nn.Parameter(fresh, old.requires_grad) if isinstance(old, nn.Parameter) else fresh
            made[id(old)] = (old, parameter)
        return made[id(old)][1]

    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = once(tensor)  # type: ignore[assignment]


def cast(inputs: Any, setting: Setting) -> Any:
    """A batch with its fractions in the dtype of the weights."""
    if setting.weight_dtype is torch.float32:
        return inputs
    return tree_map(lambda leaf: _cast(leaf, setting.weight_dtype) if isinstance(leaf, Tensor) else leaf, inputs)


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def iterate(model: nn.Module, inputs: Any, trainee: Trainee, setting: Setting, tracker: IterationTracker) -> None:
    """One iteration of the training loop, with an optimizer that changes nothing."""
    optimizer = _StandIn(model, tracker)
    task = TraineeTask(trainee, setting, inputs, after_forward=tracker.mark_backward)
    Loop(task, model, ScheduledOptimizer(optimizer)).step()


class TraineeTask:
    """A trainee as the task of a training loop: every step has the same batch."""

    def __init__(
        self, trainee: Trainee, setting: Setting, inputs: Any, after_forward: Callable[[], None] = lambda: None
    ):
        self.trainee, self.inputs, self._after_forward = trainee, inputs, after_forward
        self._autocast = setting.precision == "autocast"

    def batch(self, step: int) -> Any:
        return self.inputs

    def loss(self, model: nn.Module, batch: Any, step: int) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._autocast):
            loss = self.trainee.loss(model, batch)
        self._after_forward()
        return loss


class _StandIn(torch.optim.Optimizer):
    """Marks the moment of the step."""

    def __init__(self, model: nn.Module, tracker: IterationTracker):
        super().__init__([p for p in model.parameters() if p.requires_grad], {})
        self._tracker = tracker

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self._tracker.mark_step()


def kept_by(kept: Mapping[str, tuple[str, int]]) -> list[KeptBy]:
    """By place: the same place in every block is one entry."""
    places: dict[tuple[str, str], list[int]] = {}
    for name, (kind, size) in kept.items():
        _, _, path = name.partition(".")
        place = ".".join("*" if part.isdigit() else part for part in path.split("."))
        places.setdefault((place, kind), []).append(size)
    found = [KeptBy(place, kind, len(sizes), sum(sizes)) for (place, kind), sizes in places.items()]
    return sorted(found, key=lambda one: -one.bytes)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Python's collector runs at moments of its own, and the trace should be the same every time."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _without_numbers(trainee: Trainee, error: Exception) -> Exception:
    """The error of a model that asks for values, which fake tensors do not have, in one line."""
    text = str(error)
    if isinstance(error, NEEDS_VALUES) or any(kind.__name__ in text for kind in NEEDS_VALUES):
        remedy = "shapes and results must not depend on values (.item(), float(), nonzero)"
        return Unbuildable(f"{trainee.spec}: reads values of tensors while it computes; {remedy}")
    if isinstance(error, WorkloadError):
        return error
    first = text.splitlines()[0] if text else ""
    return Unbuildable(f"{trainee.spec}: raised {type(error).__name__} on tensors without memory: {first}")
