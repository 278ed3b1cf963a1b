"""States in 8, 4 and 16 bits, one step at a time from a common state.

Over many steps a state that is rounded differently once goes its own way; over one step every lowering must give
codes within one of each other, the same scales up to rounding, and the parameters of the float64 oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fallline.formats import block_format
from tests.covering import covering_array
from tests.formats.levels import dither, level
from tests.native import needs_native
from tests.parity.trajectories import Trajectory

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 4
AXES: dict[str, list[Any]] = {
    "variant": [
        *("sgd momentum", "sgd nesterov", "adam", "adam amsgrad", "adamw", "adagrad options"),
        *("rmsprop", "rmsprop momentum", "lion"),
    ],
    "lowering": ["foreach", "native", "native each"],
    "state_dtype": ["int8", "int4", "bfloat16"],
    "size": [4097, 278011],
    "dtype": ["float32", "bfloat16"],
    "gradient": ["float32", "bfloat16"],
    "layout": ["contiguous", "transposed gradient", "channels_last", "gapped", "expanded gradient"],
}
CASES = covering_array(AXES, seed=2)


def codes_of(entry: dict[str, Tensor], name: str, kind: str, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Codes as integers, one per element, and the scales."""
    for stored in ("int8", "int4"):
        if f"{name}:{stored}" in entry:
            form = block_format(stored, kind)
            codes = entry[f"{name}:{stored}"]
            flat = codes.reshape(-1) if stored == "int8" else form.unpacked(codes, shape.numel())
            return flat.to(torch.int32), entry[f"{name}:scale"]
    raise KeyError(name)


def decoded(entry: dict[str, Tensor], name: str, kind: str, shape: torch.Size) -> Tensor:
    if name in entry:
        return entry[name].double()
    for stored in ("int8", "int4"):
        if f"{name}:{stored}" in entry:
            form = block_format(stored, kind)
            return form.decode(entry[f"{name}:{stored}"], entry[f"{name}:scale"], shape).double()
    raise KeyError(name)


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(str(v).replace(" ", "_") for v in c.values()))
def test_one_step_from_a_common_state(case: dict[str, Any]) -> None:
    if case["lowering"].startswith("native"):
        needs_native()
    dtype, gradient = getattr(torch, case["dtype"]), getattr(torch, case["gradient"])
    fixed = dict(dtype=dtype, grad_dtype=gradient, layout=case["layout"], size=case["size"])
    reference = Trajectory(case["variant"], "eager", **fixed, state_dtype=case["state_dtype"])
    run = Trajectory(case["variant"], case["lowering"], **fixed, state_dtype=case["state_dtype"])
    kinds = {name: state.kind for name, state in run.optimizer.description.rule.states.items()}
    (oracle,) = reference.oracles
    for _ in range(STEPS):
        before = [p.detach().clone() for p in reference.params]
        reference.step()
        run.step()
        for i, (p, q) in enumerate(zip(reference.params, run.params, strict=True)):
            mine, theirs = run.optimizer.state[q], reference.optimizer.state[p]
            assert set(mine) == set(theirs)
            check_parameter(q, p, oracle.params[i], before[i], cancelled(run, p, before[i]), run.unsure[i])
            for name in oracle.states[i]:
                check_state(name, kinds[name], mine, theirs, oracle.states[i][name], p.shape)
        start_over(reference, run, kinds)
    # Only the first parameter is large enough; its states are in the format that was asked for.
    asked = case["state_dtype"]
    stored = {k: v for k, v in run.optimizer.state[run.params[0]].items() if k != "step" and ":scale" not in k}
    assert all(k.endswith(f":{asked}") or str(v.dtype) == f"torch.{asked}" for k, v in stored.items())


def cancelled(run: Trajectory, param: Tensor, before: Tensor) -> Tensor:
    """By how much the relative error of a gradient grows where the decay that is added to it cancels it."""
    assert param.grad is not None
    decay = 0.0 if run.class_name in ("AdamW", "Lion") else run.options.get("weight_decay", 0.0)
    gradient, added = param.grad.double(), decay * before.double()
    return (gradient.abs() + added.abs()) / (gradient + added).abs().clamp_min(2.0**-149)


def check_parameter(
    actual: Tensor, other: Tensor, expected: np.ndarray, before: Tensor, condition: Tensor, unsure: np.ndarray
) -> None:
    sure = ~torch.tensor(unsure)
    found, wanted = actual.detach().double()[sure], torch.tensor(expected)[sure]
    moved = (wanted - before.double()[sure]).abs()
    # In float32 a few roundings of the weight and of its step; in bfloat16 half a spacing, so 2^-8 of the weight.
    size = found.abs().max() if found.numel() else 0.0
    allowed = 2.0**-8 * wanted.abs() if actual.dtype == torch.bfloat16 else 4 * 2.0**-24 * (wanted.abs() + size)
    allowed = allowed + 32 * 2.0**-24 * float(moved.max() if moved.numel() else 0.0)
    # Where decay cancels a gradient down to its rounding error and v has code 0, g/√v is the sign of that error.
    allowed = allowed + 4 * 2.0**-24 * condition[sure].clamp_max(2.0**24) * moved
    assert bool(((found - wanted).abs() <= allowed).all())
    if actual.dtype == torch.float32:
        assert bool(((found - other.detach().double()[sure]).abs() <= allowed).all())


def check_state(
    name: str, kind: str, mine: dict[str, Tensor], theirs: dict[str, Tensor], expected: np.ndarray, shape: torch.Size
) -> None:
    if name in mine:  # float32 because it is small, or bfloat16
        assert mine[name].dtype == theirs[name].dtype
        found, other, wanted = mine[name].double(), theirs[name].double(), torch.tensor(expected)
        # Stochastic rounding goes to one of the two neighbours, with the same random bits everywhere.
        spacing = 2.0**-7 if mine[name].dtype == torch.bfloat16 else 16 * 2.0**-24
        assert bool(((found - wanted).abs() <= spacing * wanted.abs() + 16 * 2.0**-24 * wanted.abs().max()).all())
        assert (found != other).double().mean() <= (2e-3 if mine[name].dtype == torch.bfloat16 else 1.0)
        return
    form = block_format("int8" if f"{name}:int8" in mine else "int4", kind)
    values = torch.tensor(expected).reshape(-1)
    exact_scale = torch.stack([block.abs().max() for block in values.split(form.block)])
    for codes, scale in (codes_of(mine, name, kind, shape), codes_of(theirs, name, kind, shape)):
        torch.testing.assert_close(scale.double(), exact_scale, rtol=16 * 2.0**-24, atol=0.0)
        share = values.abs() / exact_scale.repeat_interleave(form.block)[: len(codes)]
        exact = level(form, share) + dither(scale, form.block).view(-1)[: len(codes)]
        wanted = torch.maximum(exact.round(), (values > 0) * 1.0 if kind == "nonneg" else torch.zeros(()))
        apart = (codes - wanted.copysign(values)).abs()
        assert int(apart.max()) <= 1
        # Only what lies in the middle between two codes may go either way.  That is rare, but of 16-bit gradients and
        # a scale close to a power of two some values lie there exactly.
        between = exact[apart > 0]
        assert bool(((between - between.floor() - 0.5).abs() < 1e-4 * form.levels).all())
        assert float((apart > 0).double().mean()) < 5e-3


def start_over(reference: Trajectory, run: Trajectory, kinds: dict[str, str]) -> None:
    """Both and the oracle go on from what the reference has stored."""
    (oracle,) = reference.oracles
    for i, (p, q) in enumerate(zip(reference.params, run.params, strict=True)):
        with torch.no_grad():
            q.copy_(p)
        entry = reference.optimizer.state[p]
        for key, value in entry.items():
            run.optimizer.state[q][key].copy_(value)
        oracle.params[i] = p.detach().double().numpy()
        oracle.states[i] = {
            name: decoded(entry, name, kinds[name], p.shape).numpy().copy() for name in oracle.states[i]
        }
    run.oracles[0].params = [x.copy() for x in oracle.params]
    run.oracles[0].states = [dict(s) for s in oracle.states]
