"""Every optimizer that reduces, averages or estimates agrees with straight-line float64 code over 50 steps:
parameters, states and scalars.

Two groups with learning rates of their own, which change on the way; parameters whose gradients come late
or are missing now and then; a checkpoint that is saved, loaded into a new optimizer and gone on from.
"""

import importlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fallline
from tests.native import needs_native
from tests.optimizers.cases_reductions import CASES, orthogonal

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
STEPS = 50
Shapes = list[tuple[int, ...]]
SMALL: Shapes = [(), (5,), (7, 5), (13, 11), (3, 4, 5), (4, 3, 3, 2), (40,), (1, 6), (6, 1), (8,), (3, 5)]
# For the engine: 130 × 1030 is cut into several tiles both ways, 40,000 elements into pieces when summed.
LARGE: Shapes = [*SMALL[:3], (130, 1030), *SMALL[4:6], (40000,), *SMALL[7:]]
GROUPS = [range(0, 8), range(8, 11)]
LATE, RARE = 4, 9
MISSING = {LATE: {0, 1, 2}, RARE: {5, 6, 20, 31}}
CHANGES_LR, SAVED = 17, 25
CHECKED = (1, 2, 3, 10, 20, 30, 40, 50)

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
}


def as_float32(x: Any) -> Array:
    """A start that both sides can take."""
    return np.asarray(x).astype(np.float32).astype(np.float64)


class Run:
    """An optimizer and its oracles, fed with the same gradients."""

    def __init__(self, name: str, dtype: torch.dtype, lowering: str, shapes: Shapes = SMALL) -> None:
        self.case, self.lowering = CASES[name], lowering
        self.rng = np.random.default_rng(7)
        start = [as_float32(self.rng.normal(size=shape)) for shape in shapes]
        self.params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in start]
        self.optimizer = self.make()
        self.parts: list[Sequence[int]] = [range(len(shapes))] if self.case.one_oracle else list(GROUPS)
        options = dict(self.case.options if self.case.oracle_options is None else self.case.oracle_options)
        if self.optimizer.param_groups[0].get("eps", (0,)) == (None, 1e-3):
            options["eps"] = (float(torch.finfo(dtype).eps), 1e-3)
        oracle = importlib.import_module(f"tests.oracles.{self.case.oracle}").Oracle
        by_shape = self.case.by_shape or (lambda shapes: {})
        self.oracles = [
            oracle([start[i] for i in part], **options, **by_shape([shapes[i] for i in part])) for part in self.parts
        ]
        self.lr = self.optimizer.param_groups[0]["lr"]
        assert self.lr == self.oracles[0].h.lr, "the defaults differ"
        self.number = 0
        self.set_lr(1.0)

    def make(self) -> Any:
        groups = [{"params": [self.params[i] for i in group]} for group in GROUPS]
        return getattr(fallline, self.case.optimizer)(groups, **self.case.options, **LOWERINGS[self.lowering])

    def set_lr(self, factor: float) -> None:
        if self.lr is None:
            return
        for g, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.lr * factor * (1.0 if self.case.one_oracle else 0.5**g)
        for g, oracle in enumerate(self.oracles):
            oracle.set(lr=self.lr * factor * 0.5**g)

    def gradient(self, p: Array) -> Array:
        g = self.rng.normal(size=p.shape) * 10.0 ** self.rng.uniform(-2, 1)
        if self.case.gradients == "towards":
            # With random gradients Prodigy's d would never grow.
            g = p - 3.0 + 0.1 * g
        if self.case.gradients == "orthogonal":
            g = orthogonal(g, p, self.number)
        return as_float32(g)

    def step(self) -> None:
        given: dict[int, Array | None] = {}
        for part, oracle in zip(self.parts, self.oracles, strict=True):
            for position, i in enumerate(part):
                g = self.gradient(oracle.params[position])
                given[i] = None if self.number in MISSING.get(i, ()) else g
            oracle.step([given[i] for i in part])
        for i, p in enumerate(self.params):
            g = given[i]
            p.grad = None if g is None else torch.tensor(g, dtype=p.dtype)
        self.optimizer.step()
        self.number += 1

    def save_and_load(self) -> None:
        file = io.BytesIO()
        torch.save(self.optimizer.state_dict(), file)
        file.seek(0)
        self.optimizer = self.make()
        self.optimizer.load_state_dict(torch.load(file, weights_only=True))

    def run(self, rtol: float, atol: float) -> None:
        while self.number < STEPS:
            if self.number == CHANGES_LR:
                self.set_lr(0.3)
            if self.number == SAVED:
                self.save_and_load()
            self.step()
            if self.number in CHECKED:
                self.check(rtol, atol)

    def check(self, rtol: float, atol: float) -> None:
        for g, (part, oracle) in enumerate(zip(self.parts, self.oracles, strict=True)):
            for name, theirs in self.case.numbers.items():
                found = self.optimizer.param_groups[g][name]
                np.testing.assert_allclose(found, getattr(oracle, theirs), rtol=rtol, atol=1e-30, err_msg=name)
            for position, i in enumerate(part):
                p = self.params[i]
                what = f"of shape {tuple(p.shape)} after {self.number} steps"
                close(p, oracle.params[position], rtol, atol, "parameter", what)
                entry = {k: v for k, v in self.optimizer.state.get(p, {}).items() if k != "step"}
                for theirs, value in oracle.states[position].items():
                    names = self.case.states.get(theirs, theirs).split(" or ")
                    name = next(n for n in names if n in entry)
                    close(entry.pop(name), value, rtol, atol, name, what)
                assert not set(entry) - {"initial_norm"}, what


OF_ORDER_ONE = ("parameter", "z", "p0", "momentum_buffer")


def close(actual: torch.Tensor, expected: Array, rtol: float, atol: float, name: str, what: str) -> None:
    """``atol`` counts in the largest element; in 1, where weights start, for what may vanish as a whole."""
    found = actual.detach().double().numpy().reshape(expected.shape)
    size = np.max(np.abs(expected), initial=1.0 if name in OF_ORDER_ONE else 0.0)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol * size, err_msg=f"{name} {what}")


@pytest.mark.parametrize("lowering", ["eager", "foreach"])
@pytest.mark.parametrize("name", CASES)
def test_float64_agrees_with_the_oracle(name: str, lowering: str) -> None:
    run = Run(name, torch.float64, lowering)
    run.run(rtol=1e-10, atol=1e-13)
    assert lowering in run.optimizer.explain()


@pytest.mark.parametrize("name", CASES)
def test_native_float32_agrees_with_the_oracle(name: str) -> None:
    """A step rounds a dozen times by 6e-8, and a parameter adds up the errors of 50 steps: below 4e-5 at
    worst, and ten times less where signs are random.  In Prodigy all steps depend on d, whose numerator is made of
    differences p0 − p."""
    needs_native()
    run = Run(name, torch.float32, "native", LARGE)
    # Coupled decay in LAMB nearly cancels the gradient of a number that stands alone.
    error = 1e-5 if "prodigy" in name else 3e-5 if name == "lamb, coupled" else 3e-6
    run.run(rtol=error, atol=error)
    assert "native (asked for)" in run.optimizer.explain()
    assert "foreach" not in run.optimizer.explain()
