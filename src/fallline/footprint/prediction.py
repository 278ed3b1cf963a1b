"""The bytes that a training needs, by category, at the moment when it needs most."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fallline.footprint.allocations import Allocations, Kind, NotAlike, through
from fallline.footprint.caching_allocator import Replayed, replay
from fallline.footprint.setting import Setting
from fallline.footprint.sharding import Share, share_of
from fallline.footprint.trace import Trace, trace
from fallline.footprint.trainees import Trainee, Unbuildable
from fallline.footprint.trainees.from_workload import from_workload
from fallline.memory import Memory, memory_of, stored_by
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.registry import create
from fallline.workloads import Workload

FORWARD_BACKWARD, STEP = "the forward and backward pass", "the optimizer's step"
SCRATCH = "scratch of matrix functions"


@dataclasses.dataclass(frozen=True)
class Prediction:
    setting: Setting
    """With the batch and sequence that were used."""
    trace: Trace
    optimizer: Memory
    """Those of the whole model, before it is shared between ranks."""
    share: Share
    """Those of one rank."""
    allocations: Allocations
    """On one device, for the last of the batches whose gradients are added up."""
    state_blocks: Sequence[int]
    """The sizes of the optimizer's tensors on one device."""
    at_peak: Mapping[str, int]
    """The sections of the bar, on the device."""
    moment: str

    @property
    def peak(self) -> int:
        """The most bytes of tensors at a time on one device."""
        return sum(self.at_peak.values())

    @property
    def process(self) -> int:
        """The most bytes that training takes in a process on a CPU besides its libraries: those of tensors, and those
        that kernels keep for the results of reductions."""
        return self.peak + self.optimizer.workspace

    @property
    def parameters(self) -> int:
        """How many."""
        return sum(param.numel() for param in self.trace.model.parameters())

    @property
    def operations(self) -> float:
        """Those of all batches of a step, recomputation included."""
        return self._of_a_step(self.trace.flops)

    @property
    def recomputed(self) -> float:
        return self._of_a_step(self.trace.recomputed_flops)

    def _of_a_step(self, traced: int) -> float:
        assert self.setting.batch is not None
        return traced * self.setting.accumulation * self.setting.batch / self.trace.batch

    @property
    def in_full(self) -> Mapping[str, int]:
        """The bytes that each category of the model needs on one device, whether or not they exist at the same time."""
        held = self.allocations.before_step()
        return {
            "parameters": held[Kind.PARAMETERS],
            "gradients": held[Kind.GRADIENTS],
            **self.share.states,
            **({SCRATCH: self.share.scratch} if self.share.scratch else {}),
            "activations kept": sum(one.bytes for one in self.trace.kept),
        }

    def replayed(self, capacity: int | None = None) -> Replayed:
        """Two iterations through a caching allocator; raises ``DoesNotFit``."""
        return self.replayed_after([], capacity)

    def replayed_after(self, before: Sequence[Prediction], capacity: int | None = None) -> Replayed:
        """The same after iterations of other sizes."""
        iterations = [one.allocations for one in before] + [self.allocations] * (1 if before else 2)
        states = [*self.state_blocks, self.share.scratch, self.share.communication]
        return replay(iterations, states, self.share.step_temporaries, capacity)


class Predictor:
    """Predicts one model in many settings; each iteration is traced once."""

    def __init__(self, model: Trainee):
        self.model = model
        self._traces: dict[tuple[Any, ...], Trace] = {}
        self._memories: dict[tuple[Any, ...], tuple[Memory, list[int]]] = {}

    def predict(self, setting: Setting) -> Prediction:
        setting = self.completed(setting)
        assert setting.batch is not None
        return self._predicted(setting, self.traced(setting).allocations)

    def completed(self, setting: Setting) -> Setting:
        """With the model's own batch and sequence in place of None, and checked."""
        model, sequence = self.model, setting.sequence
        if sequence is not None and model.sequence is None:
            raise Unbuildable(f"{model.spec}: has no sequences whose length could be set (--sequence {sequence})")
        if sequence is not None and model.most_sequence is not None and sequence > model.most_sequence:
            raise Unbuildable(f"{model.spec}: takes at most {model.most_sequence} tokens, got --sequence {sequence}")
        return setting.replace(
            batch=model.batch if setting.batch is None else setting.batch,
            sequence=model.sequence if sequence is None else sequence,
        )

    def traced(self, setting: Setting) -> Trace:
        key = (setting.batch, setting.sequence, *_computing(setting))
        if key not in self._traces:
            assert setting.batch is not None
            self._traces[key] = trace(self.model, setting, setting.batch, setting.sequence)
        return self._traces[key]

    def batches_traced(self, setting: Setting) -> list[int]:
        """Batches at which this setting has been traced, and twice the batch too."""
        setting = self.completed(setting)
        known = {key[0] for key in self._traces if key[1:] == (setting.sequence, *_computing(setting))}
        return sorted(batch for batch in known if 2 * batch in known)

    def at_batch(self, setting: Setting, batch: int) -> Prediction:
        """The prediction at another batch, from traces at two sizes; a trace of its own where these are not alike."""
        setting = self.completed(setting)
        assert setting.batch is not None
        if batch == setting.batch:
            return self.predict(setting)
        other = 2 * setting.batch
        traces = {size: self.traced(setting.replace(batch=size)).allocations for size in (setting.batch, other)}
        changed = setting.replace(batch=batch)
        try:
            return self._predicted(changed, through(traces, batch), self.traced(setting))
        except NotAlike:
            return self.predict(changed)

    def at_sequence(self, setting: Setting, sequence: int) -> Prediction:
        """The prediction at another length of sequences, from traces at three lengths."""
        setting = self.completed(setting)
        assert setting.sequence is not None
        if sequence == setting.sequence:
            return self.predict(setting)
        lengths = {max(1, setting.sequence // part) for part in (1, 2, 4)}
        traces = {length: self.traced(setting.replace(sequence=length)).allocations for length in lengths}
        changed = setting.replace(sequence=sequence)
        try:
            return self._predicted(changed, through(traces, sequence), self.traced(setting))
        except NotAlike:
            return self.predict(changed)

    def memory(self, setting: Setting) -> tuple[Memory, list[int]]:
        """The bytes of parameters, gradients and states of the whole model, and the sizes of its states' tensors."""
        key = (setting.optimizer, setting.state_dtype, setting.precision)
        if key not in self._memories:
            optimizer = optimizer_for(self.traced(self.completed(setting)).model, setting)
            self._memories[key] = memory_of(optimizer), [one.bytes for one in stored_by(optimizer)]
        return self._memories[key]

    def _predicted(self, setting: Setting, allocations: Allocations, traced: Trace | None = None) -> Prediction:
        traced = self.traced(setting) if traced is None else traced
        if setting.accumulation > 1:
            allocations = allocations.with_gradients_held()
        memory, blocks = self.memory(setting)
        share = share_of(setting, memory, traced.model)
        allocations = share.applied(allocations)
        at, _ = allocations.peak_of_gradients_pass()
        moments = {
            FORWARD_BACKWARD: _sections(allocations.at(at), share, in_step=False),
            STEP: _sections(allocations.before_step(), share, in_step=True),
        }
        moment = max(moments, key=lambda name: sum(moments[name].values()))
        ranks = setting.ranks if setting.shard else 1
        blocks = [] if setting.offload else [-(-size // ranks) for size in blocks]
        return Prediction(setting, traced, memory, share, allocations, blocks, moments[moment], moment)


def _computing(setting: Setting) -> tuple[Any, ...]:
    """The facts that a trace depends on besides sizes: masters, for instance, take no part in it."""
    return setting.weight_dtype, setting.precision == "autocast", setting.checkpointing


def _sections(alive: Mapping[Kind, int], share: Share, *, in_step: bool) -> dict[str, int]:
    """The bytes on one device by category."""
    found = {
        "parameters": alive[Kind.PARAMETERS],
        "gradients": alive[Kind.GRADIENTS],
        **share.states,
        SCRATCH: share.scratch,
        "communication": share.communication,
        "activations": alive[Kind.ACTIVATIONS],
        "temporaries": alive[Kind.TEMPORARY] + (share.step_temporaries if in_step else 0),
        "module buffers": alive[Kind.BUFFERS],
        "inputs": alive[Kind.INPUTS],
    }
    return {name: size for name, size in found.items() if size}


def optimizer_for(model: nn.Module, setting: Setting) -> RuleOptimizer:
    """The optimizer of a setting over the parameters of a model, which may be without memory."""
    options: dict[str, Any] = {"master_weights": True} if setting.has_masters else {}
    if setting.state_dtype != "float32":
        options["state_dtype"] = setting.state_dtype
    return create(setting.optimizer, model, **options)


# ------------------------------------------------------------------ for other verbs


def predicted(workload: Workload, setting: Setting | None = None) -> Prediction:
    """The memory of training a workload."""
    return Predictor(from_workload(workload)).predict(setting or Setting())


def predicted_peak(workload: Workload, optimizer: str = "adamw", *, batch: int | None = None, **changes: Any) -> int:
    """The most bytes of tensors at a time in a training of a workload; ``changes`` are fields of ``Setting``.

    >>> from fallline.workloads import load
    >>> predicted_peak(load("fashion_mlp"), "sgd") < predicted_peak(load("fashion_mlp"), "adamw")
    True
    """
    return predicted(workload, Setting(optimizer=optimizer, batch=batch, **changes)).peak
