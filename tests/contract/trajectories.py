"""Shared by these tests: parameters, gradients that repeat, and comparisons."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "compiled": {"compiled": True},
    "native": {"foreach": True, "fused": True},
    "native each": {"foreach": False, "fused": True},
}

# Class name → options worth a trajectory of its own; torch's classes first.
TORCH_CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.01, "eps": 1e-6}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.01}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "momentum": 0.8, "centered": True, "weight_decay": 0.02}),
]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Lion", "AMSGrad", "Adam8bit", "AdamW8bit", "Lion8bit"]
OWN_CASES: list[tuple[str, dict[str, Any]]] = [
    ("AMSGrad", {"lr": 0.01}),
    ("Lion", {"lr": 0.001, "weight_decay": 0.1}),
    ("Adam8bit", {"lr": 0.01}),
    ("AdamW8bit", {"lr": 0.01}),
    ("Lion8bit", {"lr": 0.001}),
]


def named(case: Any) -> str:
    """A readable test id."""
    if isinstance(case, dict):
        return "-".join(f"{k}={v}" for k, v in case.items()) or "defaults"
    return str(case)


def parameters(*shapes: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Parameter]:
    random = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return [Parameter(torch.randn(shape, generator=random, dtype=wide).to(dtype)) for shape in shapes]


def copies(params: Iterable[Tensor]) -> list[Parameter]:
    return [Parameter(p.detach().clone(memory_format=torch.preserve_format)) for p in params]


def set_gradients(params: Iterable[Tensor], step: int, scale: float = 1.0) -> None:
    """The same gradients for the same step and shapes, whatever happened before."""
    random = torch.Generator().manual_seed(1000 + step)
    for p in params:
        wide = torch.complex128 if p.is_complex() else torch.float64
        p.grad = (torch.randn(p.shape, generator=random, dtype=wide) * scale).to(p.dtype)


def run(optimizer: torch.optim.Optimizer, steps: range | int, scale: float = 1.0) -> None:
    """Steps with the gradients that belong to each step's number."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for step in range(steps) if isinstance(steps, int) else steps:
        set_gradients(params, step, scale)
        optimizer.step()


def values(params: Iterable[Tensor]) -> list[Tensor]:
    return [p.detach().clone() for p in params]


def assert_same(actual: Any, expected: Any) -> None:
    """Bitwise, NaN equal to NaN, through lists and dictionaries."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def assert_near(actual: Any, expected: Any, rtol: float = 2e-5, atol: float = 2e-6) -> None:
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def assert_rounded_alike(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], lr: float) -> None:
    """Parameters ("p") and 8-bit states of two ways that round sums and products differently.

    Values agree to the last bits; where one lies between two codes either may be taken, which moves an update by a
    few hundredths.
    """
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        difference = (actual[name].contiguous().double() - value.double()).abs()
        if value.dtype in (torch.int8, torch.uint8):
            assert difference.max() <= 1 and (difference > 0).double().mean() < 1e-3
        elif name == "p":
            assert difference.max() < 0.05 * lr and (difference > 1e-6).double().mean() < 1e-3
        else:
            assert_near(actual[name].contiguous(), value, rtol=1e-6, atol=0)


class Unchanged:
    """``with Unchanged(opt):`` whatever happens inside, groups, states and parameters stay as they were."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer

    def _all(self) -> Any:
        saved = copy.deepcopy(self.optimizer.state_dict())
        return saved, values(p for g in self.optimizer.param_groups for p in g["params"])

    def __enter__(self) -> None:
        self.before = self._all()

    def __exit__(self, *raised: Any) -> None:
        (state, weights), (state_now, weights_now) = self.before, self._all()
        assert_same(weights_now, weights)
        assert list(state_now["state"]) == list(state["state"])
        for number, entry in state["state"].items():
            assert_same(state_now["state"][number], entry)
        assert state_now["param_groups"] == state["param_groups"]


HANGING = 1800.0
"""Seconds after which a program is taken to hang.  On a busy machine importing torch alone can take minutes."""


def python(code: str, timeout: float = HANGING, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter, two threads, and returns what it printed."""
    env = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code], env=env, capture_output=True, text=True, timeout=timeout
    )
