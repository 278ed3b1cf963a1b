"""The compiled lowering follows the oracle too, and compiles once."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

import fallline
from tests.optimizers.cases_elementwise import CASES as ELEMENTWISE
from tests.optimizers.cases_reductions import CASES as REDUCING
from tests.optimizers.cases_reductions import orthogonal
from tests.parity.trajectories import Trajectory

pytestmark = pytest.mark.usefixtures("one_thread")

# Each takes seconds to compile; between them they use every construct of the elementwise rules.
CASES: list[dict[str, Any]] = [
    dict(variant="sgd momentum", dtype=torch.float32, layout="gapped", size=22, missing=True, lr_changes="number"),
    dict(variant="amsgrad coupled", dtype=torch.float64, layout="transposed", size=22, grouping="each", maximize=True),
    dict(variant="adamw", dtype=torch.bfloat16, layout="channels_last", size=4097, lr_changes="tensor"),
    dict(variant="rmsprop textbook", dtype=torch.float32, layout="transposed gradient", size=4097, grouping="two"),
    dict(variant="lion", dtype=torch.float32, grad_dtype=torch.bfloat16, layout="expanded gradient", size=22),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["variant"])
def test_compiled_trajectories_agree_with_the_oracle(case: dict[str, Any]) -> None:
    run = Trajectory(lowering="compiled", **case)
    for step in range(1, 31):
        run.step()
        run.check()
        run.keep_stored()
        if step == 10:
            run.save_and_load()
    assert ": compiled (asked for)" in run.optimizer.explain()


# Over rows and then over the whole, with a branch between them; over tensors; over all of them; over rows and columns.
REDUCTIONS = {
    "adamp, nesterov": REDUCING["adamp, nesterov"],
    "lamb": REDUCING["lamb"],
    "adan, clipped": ELEMENTWISE["adan, clipped"],
    "adafactor, hf": REDUCING["adafactor, hf"],
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_compiled_reductions_agree_with_the_oracle(name: str) -> None:
    case: Any = REDUCTIONS[name]
    random = np.random.default_rng(0)
    start = [random.normal(size=shape) for shape in ((6, 5), (3, 4))]
    params = [torch.tensor(p, requires_grad=True) for p in start]
    optimizer = getattr(fallline, case.optimizer)(params, **case.options, compiled=True)
    oracle = importlib.import_module(f"tests.oracles.{case.oracle}").Oracle(start, **case.options)
    for number in range(3):
        grads = [3.0 * random.normal(size=p.shape) for p in start]
        if case.oracle == "adamp":
            grads = [orthogonal(g, p, number) for g, p in zip(grads, oracle.params, strict=True)]
        for p, g in zip(params, grads, strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
        oracle.step(grads)
        for p, expected, states in zip(params, oracle.params, oracle.states, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-11, atol=1e-13)
            for key, value in states.items():
                found = optimizer.state[p][getattr(case, "states", {}).get(key, key)]
                np.testing.assert_allclose(found.numpy().reshape(value.shape), value, rtol=1e-11, atol=1e-13)
    assert ": compiled (asked for)" in optimizer.explain()


def compilations() -> int:
    return int(counters["stats"]["unique_graphs"])


def test_nothing_that_changes_in_training_compiles_again() -> None:
    torch._dynamo.reset()
    params = [torch.randn(shape, requires_grad=True) for shape in ((40,), (7, 5), (), (2, 3, 4))]
    optimizer = fallline.Adam(params, lr=0.1, weight_decay=0.01, compiled=True)

    def step() -> None:
        for p in params:
            p.grad = torch.randn_like(p)
        optimizer.step()

    before = compilations()
    step()
    # One graph for all shapes; a number is left to eager.
    assert compilations() == before + 1
    group = optimizer.param_groups[0]
    for change in (
        {},
        {"lr": 0.05},
        {"lr": torch.tensor(0.02)},
        {"betas": (0.8, 0.99)},
        {"eps": 1e-3},
        {"weight_decay": 0.0},
        {"maximize": True},
    ):
        group.update(change)
        step()
    params[0].grad = None
    optimizer.step()
    optimizer.add_param_group({"params": [torch.ones(9, 2, requires_grad=True)], "lr": 0.3})
    params.extend(optimizer.param_groups[1]["params"])
    step()
    assert compilations() == before + 1


def test_low_bit_states_are_compiled_around() -> None:
    """Formats live in load and store: the compiled function is the one of plain states."""
    results = []
    for flags in (dict(foreach=False, fused=False), dict(compiled=True)):
        torch.manual_seed(0)
        p = torch.randn(5000, requires_grad=True)
        optimizer = fallline.Adam([p], lr=0.1, weight_decay=0.01, state_dtype="int8", **flags)
        p.grad = torch.randn(5000)
        optimizer.step()
        results.append((p.detach(), optimizer.state[p]["exp_avg:int8"]))
    (p, codes), (q, other) = results
    torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)
    assert int((codes.int() - other.int()).abs().max()) <= 1
