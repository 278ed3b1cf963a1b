"""``cautious=True``: what the gradient opposes is dropped from the step, and the rest scaled up."""

from typing import Any

import pytest
import torch
from torch import Tensor

import fallline
from tests.optimizers.cases_elementwise import CASES

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES = sorted(
    {"SGD", "Adam", "Adagrad", "RMSprop", "SGDP", "Prodigy", *(case.optimizer for case in CASES.values())}
    - {"NAGGS", "NAG4"}
)
# Without decay the step is the direction alone.
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": dict(momentum=0.9),
    "RMSprop": dict(momentum=0.9),
    "MARS": dict(weight_decay_1d=0.0),
    "SophiaG": dict(bs=1),
    "QHM": dict(momentum=0.9, nu=0.95),
    "SGDP": dict(momentum=0.9),
    "Prodigy": dict(lr=1.0, d0=0.1),
}


def parameters() -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=random, dtype=torch.float64).requires_grad_() for s in [(6, 9), (31,), ()]]


def give(params: list[Tensor], step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for p in params:
        p.grad = torch.randn(p.shape, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_step_is_masked_and_states_are_not(name: str, foreach: bool) -> None:
    make = getattr(fallline, name)
    options = {"lr": 0.1, "foreach": foreach, "fused": False, **OPTIONS.get(name, {})}
    if "weight_decay" in make.description.defaults:
        options["weight_decay"] = 0.0
    plain, masked = parameters(), parameters()
    a, b = make(plain, **options), make(masked, **options)
    opposed = 0
    for step in range(5):
        # From a common start in every step.
        before = [p.detach().clone() for p in plain]
        b.load_state_dict(a.state_dict())
        for p, q in zip(masked, before, strict=True):
            p.data.copy_(q)
        b.param_groups[0]["cautious"] = True
        for params, optimizer in ((plain, a), (masked, b)):
            give(params, step)
            optimizer.step()
        for p, q, start in zip(plain, masked, before, strict=True):
            moved = p.detach() - start
            keep = (moved * p.grad < 0).double()
            opposed += int((moved * p.grad > 0).sum())
            torch.testing.assert_close(q.detach() - start, moved * keep / keep.mean().clamp(min=1e-3))
            for key, value in a.state[p].items():
                torch.testing.assert_close(b.state[q][key], value, rtol=0, atol=0)
    assert opposed or name in ("Adagrad", "Adadelta"), "the mask had nothing to do"


# What is masked is the step without decay.
DECAYING: dict[str, dict[str, Any]] = {
    "LAMB": dict(weight_decay=0.3, max_grad_norm=None),
    "AmosAlgoPerf": dict(l2=3.0, eta=1.0, max_grad_norm=None),
    "AdamP": dict(weight_decay=0.3, delta=0.0),
}


@pytest.mark.parametrize("name", DECAYING)
def test_decay_is_not_masked(name: str) -> None:
    """Where the gradient opposes every step, the weights move by their decay alone."""
    make, options = getattr(fallline, name), DECAYING[name]
    p = torch.linspace(1.0, 2.0, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    optimizer = make([p], lr=0.1, cautious=True, **options)
    p.grad = torch.ones_like(p)
    optimizer.step()  # the momentum now points down
    before = p.detach().clone()
    p.grad = torch.full_like(p, -1e-3)
    optimizer.step()
    share = p.detach() / before
    assert bool((share < 1.0).all())
    torch.testing.assert_close(share, share.mean().expand_as(share))


def test_steps_of_amos_without_momentum_are_never_masked() -> None:
    """They have the sign of the gradient; with the decay they would not."""
    plain, masked = parameters(), parameters()
    options: dict[str, Any] = dict(lr=0.1, extra_l2=0.5)
    optimizers = [fallline.Amos(plain, **options), fallline.Amos(masked, **options, cautious=True)]
    for step in range(4):
        for params, optimizer in zip((plain, masked), optimizers, strict=True):
            give(params, step)
            optimizer.step()
    for p, q in zip(plain, masked, strict=True):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("flags", [dict(foreach=False, fused=False), dict(foreach=True, fused=False), {}])
def test_steps_of_fromage_keep_their_length_and_its_bound_holds(flags: dict[str, Any]) -> None:
    """They have the sign of the gradient and a length of their own, and the mask only drops zeros."""
    plain, masked = parameters(), parameters()
    options: dict[str, Any] = dict(lr=0.3, p_bound=1.05, **flags)
    optimizers = [fallline.Fromage(plain, **options), fallline.Fromage(masked, **options, cautious=True)]
    starts = [float(p.detach().norm()) for p in plain]
    reached = False
    for step in range(6):
        for params, optimizer in zip((plain, masked), optimizers, strict=True):
            give(params, step)
            for p in params:
                assert p.grad is not None
                p.grad -= p.detach()  # outwards
                if p.ndim:
                    p.grad[: len(p) // 2] = 0.0
            optimizer.step()
        for p, q, start in zip(plain, masked, starts, strict=True):
            norm = float(q.detach().norm())
            assert norm <= 1.05 * start * (1 + 1e-9)
            reached = reached or norm > 1.05 * start * (1 - 1e-9)
            torch.testing.assert_close(p, q)
    assert reached


def test_momentum_of_adafactor_is_masked() -> None:
    """What is subtracted is the mean of the steps; without a mean, steps always have the sign of the gradient."""
    p = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    optimizer = fallline.Adafactor([p], variant="hf", beta1=0.9, cautious=True)
    p.grad = torch.ones_like(p)
    optimizer.step()
    before, mean = p.detach().clone(), optimizer.state[p]["exp_avg"].clone()
    assert bool((before < 1.0).all())
    p.grad = torch.full_like(p, -1e-3)
    optimizer.step()
    assert torch.equal(p.detach(), before)
    assert not torch.equal(optimizer.state[p]["exp_avg"], mean)


@pytest.mark.parametrize("name", ["NAGGS", "NAG4"])
def test_rules_without_a_direction_refuse_by_name(name: str) -> None:
    make = getattr(fallline, name)
    with pytest.raises(ValueError, match=f"cautious=True is not possible with {name}: its equations have no direction"):
        make(parameters(), cautious=True)
    optimizer = make(parameters())
    optimizer.param_groups[0]["cautious"] = True
    give(optimizer.param_groups[0]["params"], 0)
    with pytest.raises(ValueError, match="cautious=True is not possible"):
        optimizer.step()


def test_flag_must_be_one() -> None:
    with pytest.raises(TypeError, match="cautious must be True or False, got 1"):
        fallline.AdamW(parameters(), cautious=1)


def test_groups_may_differ() -> None:
    params, plain, masked = parameters(), parameters(), parameters()
    mixed = fallline.AdamW([{"params": params[:1]}, {"params": params[1:], "cautious": True}], lr=0.1)
    others = [fallline.AdamW(plain, lr=0.1), fallline.AdamW(masked, lr=0.1, cautious=True)]
    for step in range(4):
        for optimizer, mine in ((mixed, params), (others[0], plain), (others[1], masked)):
            give(mine, step)
            optimizer.step()
    torch.testing.assert_close(params[0], plain[0])
    torch.testing.assert_close(params[1], masked[1])
    assert not torch.allclose(params[1], plain[1])


def test_checkpoint_carries_the_flag() -> None:
    optimizer = fallline.AdamW(parameters(), cautious=True)
    resumed = fallline.AdamW(parameters())
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["cautious"] is True


def test_entry_points_are_not_masked() -> None:
    params, twins = parameters(), parameters()
    for optimizer, mine in ((fallline.SophiaG(params, cautious=True), params), (fallline.SophiaG(twins), twins)):
        give(mine, 0)
        optimizer.update_hessian()
        torch.testing.assert_close(optimizer.state[mine[0]]["hessian"], 0.01 * mine[0].grad ** 2)
