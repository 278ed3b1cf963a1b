"""Every elementwise optimizer agrees with straight-line float64 code: parameters, states and scalars, 50 steps.

Two groups with learning rates of their own, which change on the way; parameters whose gradients come late or are
missing now and then; shapes from a single number to 4097 elements.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fallline
from tests.native import needs_native
from tests.optimizers.cases_elementwise import CASES

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
STEPS = 50
SHAPES: list[tuple[int, ...]] = [(), (5,), (7, 5), (3, 2, 4, 5), (4097,), (3, 5), (6,), (2, 3, 4)]
GROUPS = [range(0, 5), range(5, 8)]
RARE, LATE = 1, 5
MISSING = {RARE: {5, 6, 20, 31}, LATE: {0, 1, 2}}
CHANGES_LR = 17

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
}


class Run:
    """An optimizer and its oracles, fed with the same gradients."""

    def __init__(self, name: str, dtype: torch.dtype, lowering: str) -> None:
        self.case = case = CASES[name]
        self.rng = np.random.default_rng(11)
        # Both sides must start from the same numbers: from those that float32 has.
        start = [as_float32(self.rng.normal(size=shape)) for shape in SHAPES]
        self.params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in start]
        make = getattr(fallline, case.optimizer)
        self.optimizer = make(
            [{"params": [self.params[i] for i in g]} for g in GROUPS], **case.options, **LOWERINGS[lowering]
        )
        self.parts: list[Sequence[int]] = [range(len(SHAPES))] if case.one_oracle else list(GROUPS)
        options = case.options if case.oracle_options is None else case.oracle_options
        oracle = importlib.import_module(f"tests.oracles.{case.oracle}").Oracle
        self.oracles = [oracle([start[i] for i in part], **options) for part in self.parts]
        self.lr = self.optimizer.param_groups[0]["lr"]
        assert self.lr == self.oracles[0].h.lr, "the defaults differ"
        self.number = 0
        self.set_lr(1.0)

    def set_lr(self, factor: float) -> None:
        for g, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.lr * factor * (1.0 if self.case.one_oracle else 0.5**g)
        for g, oracle in enumerate(self.oracles):
            oracle.set(lr=self.lr * factor * 0.5**g)

    def gradients(self) -> list[Array | None]:
        """Gradients of sizes that change by orders of magnitude."""
        found: list[Array | None] = []
        for i, shape in enumerate(SHAPES):
            g = as_float32(self.rng.normal(size=shape) * 10.0 ** self.rng.uniform(-2, 1))
            found.append(None if self.number in MISSING.get(i, ()) else g)
        return found

    def give(self, grads: Sequence[Array | None]) -> list[list[Array | None]]:
        for p, g in zip(self.params, grads, strict=True):
            p.grad = None if g is None else torch.tensor(g, dtype=p.dtype)
        return [[grads[i] for i in part] for part in self.parts]

    def run(self) -> None:
        for self.number in range(STEPS):
            if self.number == CHANGES_LR:
                self.set_lr(0.3)
            for oracle, mine in zip(self.oracles, self.give(self.gradients()), strict=True):
                oracle.step(mine)
            self.optimizer.step()
            if (method := self.case.calls.get(self.number)) is not None:
                self.call(method)

    def call(self, method: str) -> None:
        parts = self.give(self.gradients())
        getattr(self.optimizer, method)()
        for oracle, mine in zip(self.oracles, parts, strict=True):
            getattr(oracle, method)(*([mine] if method == "update_hessian" else []))

    def check(self, rtol: float, atol: float) -> None:
        for g, (part, oracle) in enumerate(zip(self.parts, self.oracles, strict=True)):
            if hasattr(oracle, "gamma"):
                np.testing.assert_allclose(self.optimizer.param_groups[g]["gamma_t"], oracle.gamma, rtol=1e-12)
            for position, i in enumerate(part):
                p = self.params[i]
                what = f"of shape {tuple(p.shape)}"
                close(p, oracle.params[position], rtol, atol, f"parameter {what}")
                entry, expected = self.optimizer.state[p], oracle.states[position]
                assert {k for k in entry if k != "step"} == set(expected), what
                for key, value in expected.items():
                    close(entry[key], value, rtol, atol, f"{key} {what}")


def as_float32(x: Any) -> Array:
    return np.asarray(x).astype(np.float32).astype(np.float64)


def close(actual: torch.Tensor, expected: Array, rtol: float, atol: float, what: str) -> None:
    """Relative to the largest element, as a difference of two numbers inherits the rounding of both."""
    actual, scale = actual.detach().double().numpy(), np.max(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol * scale, err_msg=what)


@pytest.mark.parametrize("lowering", ["eager", "foreach"])
@pytest.mark.parametrize("name", CASES)
def test_float64_agrees_with_the_oracle(name: str, lowering: str) -> None:
    run = Run(name, torch.float64, lowering)
    run.run()
    run.check(rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_native_float32_agrees_with_the_oracle(name: str) -> None:
    """A step rounds a dozen times by 6e-8, means forget the errors of old steps, parameters add them up: below
    50 × 12 × 6e-8 = 4e-5 at worst and ten times less where signs are random."""
    needs_native()
    run = Run(name, torch.float32, "native")
    run.run()
    assert "native" in run.optimizer.explain()
    run.check(rtol=1e-5, atol=1e-6)
