"""The memory of a training step by category: tensors that are held between steps, and temporaries of a step."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.lower.item import real_shape
from fallline.lower.native.workspace import workspace_bytes
from fallline.memory.states import Stored, stored
from fallline.memory.temporaries import NATIVE, working_memory
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.states import MASTER
from fallline.rules.program import Program


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of a training step, in bytes."""

    parameters: int
    gradients: int
    """The gradients, as large as the parameters that have one."""
    states: Mapping[str, Mapping[str, int]]
    """The states by name and format, ``{"exp_avg": {"int8": 5080, "float32": 400}}``; small tensors stay in 32 bits."""
    masters: int
    counters: int
    """Step counters and other single numbers of each parameter, which share a tensor."""
    temporaries: int
    """The memory that a step allocates besides all this, at its peak."""
    scratch: int = 0
    """The memory in which matrix functions find and leave values, kept from step to step."""
    workspace: int = 0
    """The memory that native kernels keep for the results of reductions. It is no tensor, and in no sum here."""

    @property
    def optimizer(self) -> int:
        """All tensors in the optimizer's state."""
        return sum(sum(sizes.values()) for sizes in self.states.values()) + self.masters + self.counters

    @property
    def held(self) -> int:
        """The memory in use from a backward pass to the end of the step."""
        return self.parameters + self.gradients + self.optimizer + self.scratch

    @property
    def peak(self) -> int:
        """The peak of the step, without activations."""
        return self.held + self.temporaries


def memory_of(optimizer: RuleOptimizer, lowering: str = "native") -> Memory:
    """The memory that a step of this optimizer needs, from shapes and dtypes alone, also of ``meta`` parameters.

    Parameters that require a gradient are assumed to have one.  ``lowering`` names the lowering that runs the step;
    native kernels allocate no tensors, unlike the functions of whole matrices that some rules call.

    >>> import torch, fallline
    >>> with torch.device("meta"):
    ...     model = torch.nn.Linear(1000, 1000)
    >>> memory = memory_of(fallline.create("adamw", model, state_dtype="int8"))
    >>> memory.parameters, memory.states["exp_avg"], memory.counters
    (4004000, {'int8': 1015628, 'float32': 4000}, 8)
    """
    sizes: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    programs: set[Program] = set()
    stepped = workspace = 0
    parameters = [param for group in optimizer.param_groups for param in group["params"]]
    for one in stored_by(optimizer):
        sizes[one.state][one.format] += one.bytes
    for group in optimizer.param_groups:
        members = list(filter(_is_stepped, group["params"]))
        stepped += len(members)
        for param in members:
            program = program_for(optimizer, group, param)
            programs.add(program)
            workspace += workspace_bytes(program, real_shape(param)) if lowering in NATIVE else 0
    masters = sum(sizes.pop(MASTER, {}).values())
    working = working_memory(optimizer, lowering)
    scalars = {name for program in programs for name, state in program.states.items() if state.shape == "scalar"}
    return Memory(
        parameters=sum(map(tensor_bytes, parameters)),
        gradients=sum(map(tensor_bytes, filter(_is_stepped, parameters))),
        states={name: dict(by_format) for name, by_format in sizes.items()},
        masters=masters,
        counters=stepped * (torch.float32.itemsize + len(scalars) * torch.float64.itemsize),
        temporaries=working.temporaries,
        scratch=working.scratch,
        workspace=workspace,
    )


def stored_by(optimizer: RuleOptimizer) -> list[Stored]:
    """The tensors of the states of all parameters, in the order in which a step makes them."""
    return [
        one
        for group in optimizer.param_groups
        for param in filter(_is_stepped, group["params"])
        for one in stored(program_for(optimizer, group, param), param, group["state_dtype"], group["master_weights"])
    ]


def tensor_bytes(tensor: Tensor) -> int:
    if is_lazy(tensor):
        raise ValueError("a lazy parameter has no size yet; run a forward pass of the model first")
    return tensor.numel() * tensor.element_size()


def _is_stepped(param: Tensor) -> bool:
    return param.requires_grad or param.grad is not None


def program_for(optimizer: RuleOptimizer, group: Mapping[str, Any], param: Tensor) -> Program:
    """The program that steps a parameter of that group."""
    return optimizer._readers.of(group).program(group, len(real_shape(param)))
