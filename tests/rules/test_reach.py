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

from tests.native import needs_native_and_a_compiler
from tests.rules import reach

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
STEPS = 32
SMALL: list[tuple[int, ...]] = [
    (),
    (5,),
    (7, 5),
    (13, 11),
    (3, 4, 5),
    (4, 3, 3, 2),
    (40,),
    (1, 6),
    (6, 1),
    (8,),
    (3, 5),
]
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


class Run:
    """An optimizer and its oracles, one per group (one in all for Prodigy), fed with the same gradients."""

    def __init__(
        self,
        case: str,
        dtype: torch.dtype,
        shapes: list[tuple[int, ...]] = SMALL,
        groups: Sequence[Sequence[int]] = GROUPS,
        **flags: Any,
    ) -> None:
        self.name, make, options, factor = CASES[case]
        rng = np.random.default_rng(7)
        # Both sides must start from the same numbers: from those that float32 has.
        start = [rng.normal(size=shape).astype(np.float32).astype(np.float64) for shape in shapes]
        self.params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in start]
        lr = options.get("lr", make.description.defaults["lr"])
        described = [
            {"params": [self.params[i] for i in chosen], "lr": lr * factor**g} for g, chosen in enumerate(groups)
        ]
        self.optimizer = make(described, **options, **flags)
        module = importlib.import_module(f"tests.oracles.{self.name}")
        options = dict(options)
        if self.name == "adafactor" and "eps" not in options:
            options["eps"] = (float(torch.finfo(dtype).eps), 1e-3)
        self.parts: list[Sequence[int]] = [range(len(shapes))] if self.name == "prodigy" else list(groups)
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
                assert_close(p, oracle.params[position], rtol, atol, "parameter", what)
                expected = oracle.states[position]
                entry = self.optimizer.state.get(p, {})
                assert {k for k in entry if k != "step"} == set(expected), what
                for key, value in expected.items():
                    assert_close(entry[key], value, rtol, atol, key, what)
            names = {
                "prodigy": dict(d="d", d_max="d_max", d_numerator="d_numerator", k="k"),
                "schedule_free_adamw": dict(lr_max="lr_max", weight_sum="weight_sum", step="k"),
                "nag_gs": dict(gamma_t="gamma"),
            }.get(self.name, {})
            for name, theirs in names.items():
                value = self.optimizer.param_groups[g][name]
                np.testing.assert_allclose(value, getattr(oracle, theirs), rtol=rtol, atol=1e-30, err_msg=name)


WEIGHTS = ("parameter", "z", "v", "p0")


def assert_close(actual: torch.Tensor, expected: Array, rtol: float, atol: float, name: str, what: str) -> None:
    """``atol`` counts in the largest element; in 1, where weights start, for what may cross zero as a whole."""
    assert tuple(actual.shape) == expected.shape, what
    size = np.max(np.abs(expected), initial=1.0 if name in WEIGHTS else 0.0)
    found = actual.detach().double().numpy()
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol * size, err_msg=f"{name} of {what}")


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
    needs_native_and_a_compiler()
    run = Run(case, torch.float32, LARGE, **LOWERINGS["native"])
    for step in range(1, STEPS + 1):
        run.step()
        if step < 4 or step % 8 == 0:
            # A dozen roundings of 6e-8, which a step damps as much as it adds.  In Prodigy all depend on d, whose
            # numerator is made of differences p0 - p.
            error = 5e-6 if "prodigy" in case else 1e-6
            run.check(rtol=error, atol=error)
    assert "native (asked for)" in run.optimizer.explain()
    assert "foreach" not in run.optimizer.explain()


# Few shapes, and none with an axis of length 1: each of these would be compiled anew, for seconds.
COMPILED: dict[str, Any] = dict(shapes=[(7, 5), (13, 11), (), (40,)], groups=[[0, 1, 2], [3]], compiled=True)


@pytest.mark.parametrize("case", ["adafactor", "prodigy"])
def test_compiled_trajectories_agree(case: str) -> None:
    run = Run(case, torch.float64, **COMPILED)
    for _ in range(4):
        run.step()
    run.check(rtol=1e-10, atol=1e-13)
    assert "compiled" in run.optimizer.explain()


@pytest.mark.parametrize("case", ["adafactor", "adamp", "prodigy, coupled", "schedule-free"])
def test_native_step_by_step_and_all_at_once_are_the_same_bits(case: str) -> None:
    needs_native_and_a_compiler()
    together, each = (Run(case, torch.float32, **LOWERINGS[name]) for name in ("native", "native each"))
    for _ in range(5):
        together.step()
        each.step()
    for p, q in zip(together.params, each.params, strict=True):
        assert torch.equal(p, q)
        for key, value in together.optimizer.state[p].items():
            assert torch.equal(value, each.optimizer.state[q][key]), key


def test_sums_over_all_parameters_include_those_of_other_lowerings() -> None:
    """Prodigy's d is one number although float64, foreach, eager and native parameters are stepped apart."""
    needs_native_and_a_compiler()
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in ((5,), (7, 5), (), (40,))]
    flags = [LOWERINGS["native"], LOWERINGS["foreach"], LOWERINGS["eager"], {}]

    def make(dtypes: list[torch.dtype], flags: list[dict[str, Any]]) -> tuple[Any, list[torch.Tensor]]:
        params = [p.to(dtype).requires_grad_() for p, dtype in zip(start, dtypes, strict=True)]
        groups = [{"params": [p], **flag} for p, flag in zip(params, flags, strict=True)]
        return reach.Prodigy(groups, d0=1e-3), params

    one, params = make([torch.float64] * 4, [LOWERINGS["eager"]] * 4)
    many, scattered = make([torch.float32, torch.float32, torch.float32, torch.float64], flags)
    for _ in range(10):
        for p, q in zip(params, scattered, strict=True):
            p.grad = p.detach() - 3.0
            q.grad = q.detach() - 3.0
        one.step()
        many.step()
    assert len({line.split(": ")[-1] for line in many.explain().splitlines()}) == 4
    assert {group["d"] for group in many.param_groups} == {many.param_groups[0]["d"]}
    assert many.param_groups[0]["d"] == pytest.approx(one.param_groups[0]["d"], rel=1e-5)
    assert one.param_groups[0]["d"] > 5e-3
    for p, q in zip(params, scattered, strict=True):
        torch.testing.assert_close(q.double(), p, rtol=1e-5, atol=1e-5)


def test_a_group_added_later_gets_the_numbers_of_the_whole_optimizer() -> None:
    p, q = (torch.ones(4, requires_grad=True) for _ in range(2))
    optimizer = reach.Prodigy([p], d0=1e-3)
    for _ in range(3):
        p.grad = p.detach() - 3.0
        optimizer.step()
    optimizer.add_param_group({"params": [q]})
    d, *other = (group["d"] for group in optimizer.param_groups)
    assert d > 1e-3
    assert other == [d]


@pytest.mark.parametrize("lowering", [*LOWERINGS, "compiled"])
def test_entries_switch_to_the_average_and_back(lowering: str) -> None:
    if lowering.startswith("native"):
        needs_native_and_a_compiler()
    flags = LOWERINGS.get(lowering, COMPILED)
    dtype = torch.float32 if lowering.startswith("native") else torch.float64
    rtol = 1e-6 if dtype == torch.float32 else 1e-12
    run = Run("schedule-free", dtype, **flags)
    run.optimizer.eval()  # nothing has been averaged yet: nothing to switch
    run.optimizer.train()
    for _ in range(2):
        for _ in range(3):
            run.step()
        stepped = list(run.optimizer.state)
        versions = [p._version for p in stepped]
        run.optimizer.eval()
        run.optimizer.eval()  # a second time changes nothing
        assert all(p._version > before for p, before in zip(stepped, versions, strict=True))
        for part, oracle in zip(run.parts, run.oracles, strict=True):
            for i, x in zip(part, oracle.x, strict=True):
                assert_close(run.params[i], x, rtol, rtol, "parameter", "the average")
        assert [group["averaged"] for group in run.optimizer.param_groups] == [1.0, 1.0]
        run.optimizer.train()
        run.optimizer.train()
        run.check(rtol=rtol, atol=rtol)
    assert [group["averaged"] for group in run.optimizer.param_groups] == [0.0, 0.0]


@pytest.mark.parametrize("case", ["adafactor", "prodigy", "schedule-free", "nag-gs"])
def test_a_checkpoint_in_the_middle_changes_nothing(case: str) -> None:
    straight, stopped = (Run(case, torch.float64, **LOWERINGS["foreach"]) for _ in range(2))
    for _ in range(5):
        straight.step()
        stopped.step()
    saved = copy.deepcopy(stopped.optimizer.state_dict())
    fresh = Run(case, torch.float64, **LOWERINGS["foreach"])
    fresh.optimizer.load_state_dict(saved)
    for p, q in zip(fresh.params, stopped.params, strict=True):
        p.data.copy_(q.data)
    fresh.oracles, fresh.rng, fresh.number = stopped.oracles, stopped.rng, stopped.number
    for _ in range(5):
        straight.step()
        fresh.step()
    for p, q in zip(straight.params, fresh.params, strict=True):
        assert torch.equal(p, q)
