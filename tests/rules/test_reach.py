"""The rules of reach.py agree with straight-line float64 code: parameters, states and scalars, 32 steps.

Float64 parameters run eagerly and through foreach, float32 ones natively, compiled when the test runs.
"""

import copy
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fallline.lower.native.compiler import find_compiler
from fallline.lower.native.library import NativeUnavailable, library
from tests.rules import reach

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
STEPS = 32
SMALL: list[tuple[int, ...]] = [(), (5,), (7, 5), (13, 11), (3, 4, 5), (4, 3, 3, 2), (40,), (1, 6), (6, 1), (8,), (3, 5)]
# 130 x 1030 is cut into several tiles both ways, 40000 elements into several pieces when they are summed.
LARGE = [*SMALL[:3], (130, 1030), *SMALL[4:6], (40000,), *SMALL[7:]]
GROUPS = [range(0, 8), range(8, 11)]
LATE, RARE = 4, 9  # the first gradient of one comes late, another misses some
MISSING = {LATE: {0, 1, 2}, RARE: {5, 6, 20, 31}}

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
    "native each": dict(foreach=False, fused=True),
}

# (oracle, class, options, factor of the learning rate in the second group)
CASES: dict[str, tuple[str, Any, dict[str, Any], float]] = {
    "adafactor": ("adafactor", reach.Adafactor, {}, 0.5),
    "adafactor, all options": (
        "adafactor",
        reach.Adafactor,
        dict(lr=0.5, beta2_decay=-0.5, eps=(1e-3, 0.1), d=1.5, weight_decay=0.1),
        0.1,
    ),
    "adamp": ("adamp", reach.AdamP, dict(lr=0.01, weight_decay=0.1), 0.5),
    "adamp, nesterov": ("adamp", reach.AdamP, dict(lr=0.01, nesterov=True, wd_ratio=0.5, weight_decay=0.1), 2.0),
    # Its groups share d, so their learning rates are equal.
    "prodigy": ("prodigy", reach.Prodigy, dict(d0=1e-3, weight_decay=0.01), 1.0),
    "prodigy, coupled": (
        "prodigy",
        reach.Prodigy,
        dict(d0=1e-3, weight_decay=0.01, decouple=False, use_bias_correction=True, growth_rate=1.2, beta3=0.9),
        1.0,
    ),
    "prodigy, no momentum": (
        "prodigy",
        reach.Prodigy,
        dict(d0=1e-3, betas=(0.0, 0.99), safeguard_warmup=True, d_coef=0.5),
        1.0,
    ),
    "schedule-free": ("schedule_free_adamw", reach.ScheduleFreeAdamW, dict(lr=0.01, weight_decay=0.1), 0.5),
    "schedule-free, warm-up": (
        "schedule_free_adamw",
        reach.ScheduleFreeAdamW,
        dict(lr=0.01, warmup_steps=10, r=0.5, weight_lr_power=1.5, inner_momentum=0.7, betas=(0.8, 0.99)),
        0.5,
    ),
    "nag-gs": ("nag_gs", reach.NAGGS, dict(lr=0.05, gamma=1.5), 0.5),
}


def needs_native() -> None:
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))
    if find_compiler() is None:
        pytest.skip("no C++ compiler")


class Run:
    """An optimizer and its oracles, one per group (one in all for Prodigy), fed with the same gradients."""

    def __init__(self, case: str, dtype: torch.dtype, shapes: list[tuple[int, ...]] = SMALL, **flags: Any) -> None:
        self.name, make, options, factor = CASES[case]
        rng = np.random.default_rng(7)
        # Both sides must start from the same numbers: from those that float32 has.
        start = [rng.normal(size=shape).astype(np.float32).astype(np.float64) for shape in shapes]
        self.params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in start]
        lr = options.get("lr", make.description.defaults["lr"])
        groups = [
            {"params": [self.params[i] for i in chosen], "lr": lr * factor**g} for g, chosen in enumerate(GROUPS)
        ]
        self.optimizer = make(groups, **options, **flags)
        module = importlib.import_module(f"tests.oracles.{self.name}")
        options = dict(options)
        if self.name == "adafactor" and "eps" not in options:
            options["eps"] = (float(torch.finfo(dtype).eps), 1e-3)
        self.parts: list[Sequence[int]] = [range(len(shapes))] if self.name == "prodigy" else list(GROUPS)
        self.oracles = [
            module.Oracle([start[i] for i in part], **{**options, "lr": lr * factor**g})
            for g, part in enumerate(self.parts)
        ]
        self.rng = rng
        self.number = 0

    def gradient(self, p: Array, number: int) -> Array:
        g = self.rng.normal(size=p.shape) * 10.0 ** self.rng.uniform(-2, 1)
        if self.name == "prodigy":
            # Towards a common target: with random gradients d would never grow.
            g = p - 3.0 + 0.1 * g
        if self.name == "adamp" and p.ndim > 1 and number % 3:
            # Orthogonal to the weights, by rows or as a whole, so that the projections take turns.
            p_rows, g_rows = (x.reshape(p.shape[0] if number % 3 == 1 else 1, -1) for x in (p, g))
            radial = np.sum(p_rows * g_rows, axis=1) / np.sum(p_rows * p_rows, axis=1)
            g = (g_rows - radial[:, None] * p_rows).reshape(p.shape)
        return np.asarray(g).astype(np.float32).astype(np.float64)

    def step(self) -> None:
        given: dict[int, Array | None] = {}
        for part, oracle in zip(self.parts, self.oracles, strict=True):
            for position, i in enumerate(part):
                g = self.gradient(oracle.params[position], self.number)
                given[i] = None if self.number in MISSING.get(i, ()) else g
            oracle.step([given[i] for i in part])
        for i, p in enumerate(self.params):
            g = given[i]
            p.grad = None if g is None else torch.tensor(g, dtype=p.dtype)
        self.optimizer.step()
        self.number += 1

    def check(self, rtol: float, atol: float) -> None:
        for g, (part, oracle) in enumerate(zip(self.parts, self.oracles, strict=True)):
            for position, i in enumerate(part):
                p = self.params[i]
                what = f"{tuple(p.shape)} after {self.number} steps"
                assert_close(p, oracle.params[position], rtol, atol, f"parameter {what}")
                expected = oracle.states[position]
                entry = self.optimizer.state.get(p, {})
                assert {k for k in entry if k != "step"} == set(expected), what
                for key, value in expected.items():
                    assert_close(entry[key], value, rtol, atol, f"{key} of {what}")
            names = {
                "prodigy": dict(d="d", d_max="d_max", d_numerator="d_numerator", k="k"),
                "schedule_free_adamw": dict(lr_max="lr_max", weight_sum="weight_sum", step="k"),
                "nag_gs": dict(gamma_t="gamma"),
            }.get(self.name, {})
            for name, theirs in names.items():
                value = self.optimizer.param_groups[g][name]
                np.testing.assert_allclose(value, getattr(oracle, theirs), rtol=rtol, atol=1e-30, err_msg=name)


def assert_close(actual: torch.Tensor, expected: Array, rtol: float, atol: float, what: str) -> None:
    assert tuple(actual.shape) == expected.shape, what
    size = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual.detach().double().numpy(), expected, rtol=rtol, atol=atol * size, err_msg=what)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lowering", ["eager", "foreach"])
def test_float64_trajectories_agree(case: str, lowering: str) -> None:
    run = Run(case, torch.float64, **LOWERINGS[lowering])
    for _ in range(STEPS):
        run.step()
        run.check(rtol=1e-10, atol=1e-13)
    assert lowering in run.optimizer.explain()


@pytest.mark.parametrize("case", CASES)
def test_float32_native_trajectories_agree(case: str) -> None:
    needs_native()
    run = Run(case, torch.float32, LARGE, **LOWERINGS["native"])
    for step in range(1, STEPS + 1):
        run.step()
        if step < 4 or step % 8 == 0:
            run.check(*tolerance(case, step))
    assert "native (asked for)" in run.optimizer.explain()
    assert "foreach" not in run.optimizer.explain()


def tolerance(case: str, step: int) -> tuple[float, float]:
    """(relative, relative to the largest element): every step rounds a handful of operations, 6e-8 each."""
    return 1e-6 * step, 1e-6 * step
