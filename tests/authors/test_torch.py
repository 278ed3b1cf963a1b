"""torch.optim itself, where it has the optimizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fallline
from tests.authors.trajectories import SAME, apart, explained

pytestmark = pytest.mark.usefixtures("one_thread")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)),
    ("Adam", dict(lr=0.1, weight_decay=0.1, amsgrad=True)),
    ("Adam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    ("AdamW", dict(lr=0.1, betas=(0.5, 0.9), eps=1e-2, weight_decay=0.3)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)),
    ("RMSprop", dict(lr=0.01, weight_decay=0.1, momentum=0.9)),
    ("RMSprop", dict(lr=0.01, alpha=0.9, centered=True, eps=1e-3)),
    ("Adadelta", dict(rho=0.8, weight_decay=0.1, lr=5.0)),
    ("Adamax", dict(lr=0.1, eps=1e-2, weight_decay=0.1)),
    ("NAdam", dict(lr=0.1, weight_decay=0.1, momentum_decay=0.1)),
    ("NAdam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    ("RAdam", dict(lr=0.1, weight_decay=0.1)),
    ("RAdam", dict(lr=0.1, betas=(0.9, 0.9), eps=1e-2, weight_decay=0.1, decoupled_weight_decay=True)),
    ("Adafactor", dict(lr=0.1, weight_decay=0.1)),
    ("Adafactor", dict(lr=0.5, beta2_decay=-0.5, eps=(1e-3, 0.1), d=1.5)),
]


@pytest.mark.parametrize("dtype", SAME, ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_trajectories_are_torchs(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    theirs, ours = getattr(torch.optim, name), getattr(fallline, name)
    far = apart(lambda p: theirs(p, **options), lambda p: ours(p, **options), dtype=dtype)
    # torch keeps NAdam's product of momenta in float32, whatever the parameters are.
    assert far <= (1e-7 if name == "NAdam" and dtype == torch.float64 else SAME[dtype])
    assert name != "NAdam" or explained("nadam", "mu_product")


def test_adafactor_of_16_bit_parameters_is_computed_in_32_bits() -> None:
    """torch computes it in 16, with a machine epsilon of 2⁻⁷ in place of 2⁻²³."""
    make = torch.optim.Adafactor
    small = dict(dtype=torch.bfloat16, scale=1e-3)
    ours = apart(lambda p: fallline.Adafactor(p, lr=0.1, eps=(2.0**-7, 1e-3)), lambda p: make(p, lr=0.1), **small)
    exact = apart(lambda p: fallline.Adafactor(p, lr=0.1), lambda p: make(p, lr=0.1), **small)
    assert ours < 0.2 < exact
    assert explained("adafactor", "float32 at least")


def test_eps_inside_is_not_torchs() -> None:
    for name in ("Adagrad", "RMSprop"):
        theirs, ours = getattr(torch.optim, name), getattr(fallline, name)
        assert apart(lambda p, o=theirs: o(p, eps=1e-2), lambda p, o=ours: o(p, eps=1e-2)) <= 1e-12
        assert apart(lambda p, o=theirs: o(p, eps=1e-2), lambda p, o=ours: o(p, eps=1e-2, eps_inside=True)) > 1e-3
        assert explained(name.lower(), "eps_inside")


def test_fused_adamw_of_torch_takes_gradients_in_memory_order() -> None:
    """Ours and torch's own loop agree on which gradient belongs to which weight."""
    ends = []
    for make, flags in (
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"fused": True}),
        (fallline.AdamW, {"fused": True}),
    ):
        p = torch.zeros(8, 12, requires_grad=True)
        p.grad = torch.linspace(-1.0, 1.0, 96).view(12, 8).t()
        optimizer = make([p], lr=0.1, **flags)
        for _ in range(3):
            optimizer.step()
        ends.append(p.detach())
    torch.testing.assert_close(ends[2], ends[0])
    assert not torch.allclose(ends[1], ends[0]), "torch has corrected it: take it off the page of AdamW"
    assert explained("adamw", "strides")
