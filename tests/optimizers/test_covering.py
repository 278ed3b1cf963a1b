"""Every optimizer of this folder, in every lowering, dtype, layout and size, follows its float64 oracle for 50 steps;
and with states in few bits it takes the steps of the same states in 32.

Covering arrays: every pair of settings meets in one of the cases.  Each optimizer takes part with the form of most
options; `test_elementwise` and `test_reductions` run all forms.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import fallline
from fallline.optimizers import description_of
from tests.covering import covering_array
from tests.native import needs_native
from tests.optimizers import cases_elementwise, cases_reductions
from tests.parity.test_low_bit import codes_of
from tests.parity.trajectories import DIGITS, half_spacing, lay_out, lay_out_gradient, shape_of

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
STEPS = 50
GROUPS = [[0, 3], [1, 2]]
CHANGES_LR, SAVED = 17, 25

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
    "native each": dict(foreach=False, fused=True),
}


def chosen_cases() -> dict[str, Any]:
    """By class, the case of most options that the library has kernels for."""
    found: dict[str, Any] = {}
    for case in (*cases_elementwise.CASES.values(), *cases_reductions.CASES.values()):
        known = found.get(case.optimizer)
        if not case.options.get("cautious") and (known is None or len(case.options) > len(known.options)):
            found[case.optimizer] = case
    return found


OPTIMIZERS = chosen_cases()
REDUCING = {case.optimizer for case in cases_reductions.CASES.values()}
LAYOUTS = ["contiguous", "gapped", "transposed", "transposed gradient", "channels_last", "states transposed", "0-d"]
AXES: dict[str, list[Any]] = {
    "optimizer": list(OPTIMIZERS),
    "lowering": list(LOWERINGS),
    "layout": LAYOUTS,
    "size": [0, 1, 3, 22, 4097],
    "dtype": ["float32", "float64", "bfloat16", "float16"],
    # None: that of the parameter.
    "gradient": [None, "float32", "bfloat16"],
    "threads": [1, 2],
}


def keeps_weights(name: str) -> bool:
    """Beside the parameter: of a 16-bit one, a copy in 32 bits, which an oracle cannot follow."""
    return any(state.kind == "weights" for state in description_of(name).rule.states.values())


def impossible(row: dict[str, Any]) -> bool:
    if row["dtype"] == "float64" and row["lowering"].startswith("native"):
        return True
    if row["dtype"] in ("bfloat16", "float16") and keeps_weights(row["optimizer"]):
        return True
    if row["size"] == 0 and row["optimizer"] in REDUCING:
        return True  # a mean of nothing; test_reductions_inputs has its meaning
    return bool(row["layout"] == "0-d" and row["size"] != 1)


# So many elements that both threads have several parts of a tensor to reduce.
LARGE = dict(
    lowering="native", layout="transposed gradient", size=278011, dtype="float32", gradient="bfloat16", threads=2
)
CASES = [*covering_array(AXES, forbid=impossible, seed=3), {"optimizer": "LAMB", **LARGE}]


class Run:
    """An optimizer and its oracles on the same gradients; the first parameter has the layout and the size."""

    def __init__(
        self, name: str, lowering: str, dtype: torch.dtype, layout: str, size: int, gradient: torch.dtype | None = None
    ) -> None:
        self.case, self.name, self.dtype, self.layout = OPTIMIZERS[name], name, dtype, layout
        self.grad_dtype = gradient or dtype
        self.flags = LOWERINGS[lowering]
        self.rng = np.random.default_rng(5)
        shapes = [shape_of(layout, size), (5,), (), (3, 4)]
        start = [torch.tensor(self.rng.normal(size=shape), dtype=torch.float64).to(dtype) for shape in shapes]
        self.params = [lay_out(start[0], layout).requires_grad_(), *(p.requires_grad_() for p in start[1:])]
        for p in self.params:
            p.grad_dtype = self.grad_dtype
        self.optimizer = self.make()
        one = self.case.one_oracle
        self.parts = [[0, 1, 2, 3]] if one else GROUPS
        options = dict(self.case.options if self.case.oracle_options is None else self.case.oracle_options)
        by_shape = getattr(self.case, "by_shape", None) or (lambda shapes: {})
        oracle = importlib.import_module(f"tests.oracles.{self.case.oracle}").Oracle
        self.oracles = [
            oracle([start[i].detach().double().numpy() for i in p], **options, **by_shape([shapes[i] for i in p]))
            for p in self.parts
        ]
        self.lr = self.optimizer.param_groups[0]["lr"]
        self.largest: dict[tuple[int, str], float] = {}
        self.number = 0

    def make(self) -> Any:
        groups = [{"params": [self.params[i] for i in group]} for group in GROUPS]
        return getattr(fallline, self.name)(groups, **self.case.options, **self.flags)

    def change_lr(self) -> None:
        if self.lr is not None:
            for holder in (*self.optimizer.param_groups, *self.oracles):
                holder.update(lr=0.3 * self.lr) if isinstance(holder, dict) else holder.set(lr=0.3 * self.lr)

    def gradient(self, i: int, p: Array) -> Tensor:
        g = self.rng.normal(size=p.shape) * 10.0 ** self.rng.uniform(-2, 1)
        kind = getattr(self.case, "gradients", "random")
        if kind == "towards":
            g = p - 3.0 + 0.1 * g
        if kind == "orthogonal":
            g = cases_reductions.orthogonal(g, p, self.number)
        made = torch.tensor(g).to(self.grad_dtype)
        return lay_out_gradient(made, self.layout, self.number) if i == 0 else made

    def step(self) -> None:
        if self.number == CHANGES_LR:
            self.change_lr()
        for part, oracle in zip(self.parts, self.oracles, strict=True):
            given = [self.gradient(i, oracle.params[position]) for position, i in enumerate(part)]
            for i, g in zip(part, given, strict=True):
                self.params[i].grad = g
            oracle.step([g.double().numpy() for g in given])
            self.note_sizes(part, oracle)
        self.optimizer.step()
        self.number += 1

    def note_sizes(self, part: list[int], oracle: Any) -> None:
        for position, i in enumerate(part):
            for name, value in (("parameter", oracle.params[position]), *oracle.states[position].items()):
                size = np.max(np.abs(value), initial=self.largest.get((i, name), 0.0))
                self.largest[i, name] = float(size)

    def call(self, method: str) -> None:
        """With the gradients that there are."""
        getattr(self.optimizer, method)()
        for part, oracle in zip(self.parts, self.oracles, strict=True):
            given = [self.params[i].grad.double().numpy() for i in part]  # type: ignore[union-attr]
            getattr(oracle, method)(*([given] if method == "update_hessian" else []))

    def save_and_load(self) -> None:
        saved = self.optimizer.state_dict()
        self.optimizer = self.make()
        self.optimizer.load_state_dict(saved)

    def transpose_states(self) -> None:
        entry = self.optimizer.state[self.params[0]]
        for name, value in list(entry.items()):
            if value.ndim == 2 and value.numel() > 1:
                entry[name] = value.t().contiguous().t()

    def keep_stored(self) -> None:
        if self.dtype in DIGITS:
            for part, oracle in zip(self.parts, self.oracles, strict=True):
                oracle.params = [self.params[i].detach().double().numpy() for i in part]

    def check(self, error: float) -> None:
        for g, (part, oracle) in enumerate(zip(self.parts, self.oracles, strict=True)):
            for name, theirs in getattr(self.case, "numbers", {}).items():
                found = self.optimizer.param_groups[g][name]
                np.testing.assert_allclose(found, getattr(oracle, theirs), rtol=error, atol=1e-30, err_msg=name)
            for position, i in enumerate(part):
                expected = oracle.params[position]
                extra = half_spacing(expected, self.dtype) if self.dtype in DIGITS else 0.0
                self.compare(i, "parameter", self.params[i], expected, error, extra)
                entry = self.optimizer.state[self.params[i]]
                for theirs, value in oracle.states[position].items():
                    names = getattr(self.case, "states", {}).get(theirs, theirs).split(" or ")
                    name = next(n for n in names if n in entry)
                    self.compare(i, theirs, entry[name], value, error, 0.0)

    def compare(self, i: int, name: str, actual: Tensor, expected: Array, error: float, extra: Any) -> None:
        """Relative to the largest value so far: what cancels keeps the rounding of what it was made of."""
        found = actual.detach().double().numpy().reshape(expected.shape)
        off = np.abs(found - expected)
        bad = ~(off <= error * (np.abs(expected) + self.largest[i, name]) + extra)
        what = f"{name} of parameter {i} after {self.number} steps"
        assert not bad.any(), f"{what}: {int(bad.sum())} of {bad.size} differ, by up to {np.max(off):.3g}"


def name_of(case: dict[str, Any]) -> str:
    return "-".join(str(v).replace(" ", "_") for v in case.values())


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_trajectories_agree_with_the_oracle(case: dict[str, Any]) -> None:
    """The tolerance is that of float32, 50 steps of a dozen roundings each; where signs are random, ten times less than
    their sum."""
    if case["lowering"].startswith("native"):
        needs_native()
    torch.set_num_threads(case["threads"])
    dtype = getattr(torch, case["dtype"])
    gradient = getattr(torch, case["gradient"] or case["dtype"])
    run = Run(case["optimizer"], case["lowering"], dtype, case["layout"], case["size"], gradient)
    # In Prodigy all steps depend on d, whose numerator is made of differences p0 − p.
    error = 1e-10 if dtype == torch.float64 else 1e-4 if "Prodigy" in case["optimizer"] else 2e-5
    for step in range(1, STEPS + 1):
        run.step()
        if step < 4 or step % 10 == 0:
            run.check(error)
        run.keep_stored()
        if (method := getattr(run.case, "calls", {}).get(step - 1)) is not None:
            run.call(method)
        if step == 2 and case["layout"] == "states transposed":
            run.transpose_states()
        if step == SAVED:
            run.save_and_load()
    assert f"{case['lowering']} (asked for)" in run.optimizer.explain()


# ---------------------------------------------------------------------------- states in few bits

LOW_BIT = [name for name in OPTIMIZERS if name not in ("NAGGS", "NAG4", "Fromage", "ScheduleFreeSGD")]
# Without a momentum all that it has of a matrix are numbers per row and column.
LOW_BIT_OPTIONS = {"Adafactor": dict(variant="hf", beta1=0.9, weight_decay=0.1)}
LOW_BIT_AXES: dict[str, list[Any]] = {
    "optimizer": LOW_BIT,
    "lowering": list(LOWERINGS),
    "state_dtype": ["int8", "int4", "bfloat16"],
    "layout": ["contiguous", "transposed gradient", "channels_last", "gapped"],
}


def test_every_optimizer_whose_states_can_be_stored_in_few_bits_is_there() -> None:
    can = {name for name in OPTIMIZERS if any(s.low_bit for s in description_of(name).rule.states.values())}
    assert set(LOW_BIT) == can


@pytest.mark.parametrize("case", covering_array(LOW_BIT_AXES, seed=4), ids=name_of)
def test_a_step_in_few_bits_is_that_of_the_same_states_in_32(case: dict[str, Any]) -> None:
    """One step at a time from a common state: the weights agree, and so do the new states up to one code."""
    if case["lowering"].startswith("native"):
        needs_native()
    name, layout, stored = case["optimizer"], case["layout"], case["state_dtype"]
    torch.manual_seed(0)
    start, noise = torch.randn(shape_of(layout, 4097)), torch.Generator().manual_seed(1)

    def made(lowering: str, **format: str) -> tuple[Tensor, Any]:
        param = lay_out(start.clone(), layout).requires_grad_()
        options = LOW_BIT_OPTIONS.get(name, OPTIMIZERS[name].options)
        return param, getattr(fallline, name)([param], **options, **LOWERINGS[lowering], **format)

    (low, rough), (wide, exact), (_, coded) = (
        made(case["lowering"], state_dtype=stored),
        made("eager"),
        made("eager", state_dtype=stored),
    )
    for step in range(4):
        before = wide.detach().clone()
        gradient = before - 3.0 + torch.randn(start.shape, generator=noise)
        for param, optimizer in ((low, rough), (wide, exact)):
            param.grad = lay_out_gradient(gradient.clone(), layout, step)
            optimizer.step()
            if name == "SophiaG":
                optimizer.update_hessian()
        moved = float((wide.detach() - before).abs().max())
        torch.testing.assert_close(low.detach(), wide.detach(), rtol=1e-6, atol=1e-6 + 1e-5 * moved)
        coded.load_state_dict(exact.state_dict())
        (mine,), (theirs,) = rough.state.values(), coded.state.values()
        assert set(mine) == set(theirs)
        states = description_of(name).rule.states
        for key, value in mine.items():
            if key.endswith(f":{stored}"):
                which = key.partition(":")[0]
                kind = states[which].kind
                (codes, _), (others, _) = (codes_of(entry, which, kind, start.shape) for entry in (mine, theirs))
                apart = (codes - others).abs()
                assert int(apart.max()) <= 1 and float(apart.float().mean()) < 0.02, key
            elif value.dtype == torch.float32:
                torch.testing.assert_close(value, theirs[key], rtol=1e-5, atol=1e-5 * float(theirs[key].abs().max()))
        # On from what was stored.
        exact.load_state_dict(rough.state_dict())
        with torch.no_grad():
            wide.copy_(low)
    assert any(key.endswith(f":{stored}") or str(v.dtype) == f"torch.{stored}" for key, v in mine.items())
