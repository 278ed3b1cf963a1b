"""The oracles of the optimizers torch has agree with torch: 30 float64 steps, parameters and states."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

SHAPES = [(), (5,), (4, 3), (2, 3, 2, 2), (1, 4), (3, 1), (3, 2)]
SOMETIMES = len(SHAPES) - 1  # this parameter misses gradients: at the start, in runs, and at single steps
MISSED = {1, 2, 6, 7, 8, 15, 22, 29}
STEPS = 30
LR_CHANGE = 16

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.02)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.02)),
    ("SGD", dict(lr=0.1, weight_decay=0.02, maximize=True)),
    ("Adam", {}),
    ("Adam", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    ("Adam", dict(lr=0.1, betas=(0.8, 0.9), amsgrad=True)),
    ("Adam", dict(lr=0.1, betas=(0.8, 0.9), amsgrad=True, weight_decay=0.1, maximize=True)),
    ("Adam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    ("AdamW", {}),
    ("AdamW", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    ("AdamW", dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, amsgrad=True, maximize=True)),
    ("Adagrad", {}),
    ("Adagrad", dict(lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2, eps=1e-2)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.05, maximize=True)),
    ("RMSprop", {}),
    ("RMSprop", dict(alpha=0.9, eps=1e-2, weight_decay=0.1)),
    ("RMSprop", dict(alpha=0.9, centered=True, eps=1e-3)),
    ("RMSprop", dict(alpha=0.9, momentum=0.8)),
    ("RMSprop", dict(alpha=0.9, centered=True, momentum=0.8, weight_decay=0.1, eps=1e-3, maximize=True)),
    ("Adadelta", {}),
    ("Adadelta", dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True)),
    ("NAdam", {}),
    ("NAdam", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.1)),
    ("NAdam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("RAdam", {}),
    ("RAdam", dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    ("RAdam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("Adamax", {}),
    ("Adamax", dict(lr=0.1, betas=(0.8, 0.9), eps=1e-2, weight_decay=0.1, maximize=True)),
    ("Adafactor", {}),
    ("Adafactor", dict(lr=0.5, beta2_decay=-0.5, eps=(1e-3, 0.1), d=1.5, weight_decay=0.1)),
    ("Adafactor", dict(lr=0.5, weight_decay=0.1, maximize=True)),
]


@pytest.fixture(autouse=True)
def float64_scalars() -> Iterator[None]:
    """torch keeps NAdam's product of momenta in the default dtype; in float32 it is off by 1e-9."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def assert_same(actual: Any, expected: torch.Tensor, what: str) -> None:
    assert actual.shape == tuple(expected.shape), what
    assert actual.dtype == np.float64, what
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-12, atol=1e-14, err_msg=what)


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else ",".join(x))
def test_parameters_and_states_agree(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    start = [rng.normal(size=shape) for shape in SHAPES]
    params = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in start]
    # foreach=False: the plain loop over parameters is torch's own reference.
    optimizer = getattr(torch.optim, name)(params, foreach=False, **options)
    oracle = importlib.import_module(f"tests.oracles.{name.lower()}").Oracle(start, **options)
    assert oracle.states == [{} for _ in SHAPES]

    for step in range(1, STEPS + 1):
        grads = [rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 1) for shape in SHAPES]
        grads[1][step % 5] = 0.0
        given = [None if i == SOMETIMES and step in MISSED else g for i, g in enumerate(grads)]
        if step == LR_CHANGE:
            lr = 0.3 * optimizer.param_groups[0]["lr"]
            optimizer.param_groups[0]["lr"] = lr
            oracle.set(lr=lr)
        for p, g in zip(params, given, strict=True):
            p.grad = None if g is None else torch.tensor(g)
        optimizer.step()
        oracle.step(given)

        for i, p in enumerate(params):
            assert_same(oracle.params[i], p, f"parameter {i} at step {step}")
            if i == SOMETIMES and all(earlier in MISSED for earlier in range(1, step + 1)):
                assert oracle.states[i] == {}
                continue
            states = {key: value for key, value in optimizer.state[p].items() if key != "step" and value is not None}
            assert oracle.states[i].keys() == states.keys()
            for key, value in states.items():
                assert_same(oracle.states[i][key], value, f"{key} of parameter {i} at step {step}")


def test_default_hyperparameters_are_torchs() -> None:
    for name in {name for name, _ in CASES}:
        theirs = getattr(torch.optim, name)([torch.zeros(1)]).defaults
        ours = vars(importlib.import_module(f"tests.oracles.{name.lower()}").Oracle([]).h)
        # Settings of forms that torch does not have: textbooks' eps_inside and gamma, other AMSGrads.
        for key in ours.keys() - {"eps_inside", "gamma", "variant"}:
            assert ours[key] == theirs[key], f"{name}.{key}"
