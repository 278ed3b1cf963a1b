"""Settings that change between steps: the equations get what a new optimizer with these settings would give them."""

from __future__ import annotations

import math

import pytest
import torch

import fallline
from fallline.optim.hyperparameters import Hyperparameters
from fallline.optimizers import descriptions

from .trajectories import LOWERINGS, assert_near, parameters, run, values

NUMBERS = {"lr": 0.0123, "weight_decay": 0.0456, "eps": 2e-7, "momentum": 0.77, "betas": (0.81, 0.97)}


@pytest.mark.parametrize("description", descriptions(), ids=lambda d: d.name)
def test_changed_values_are_those_of_a_new_optimizer(description):
    param = torch.nn.Parameter(torch.ones(3, 3))
    make = getattr(fallline, description.class_name)
    given = {"bs": 1} if "bs" in description.defaults else {}
    group = make([param], **given).param_groups[0]
    classes = Hyperparameters(description)
    before = dict(classes.values(group)[1])
    tried = 0
    for name, value in NUMBERS.items():
        if name not in description.defaults or isinstance(group[name], tuple) != (name == "betas"):
            continue
        if name == "betas":
            value = (*value, 0.5)[: len(group[name])]
        group[name] = value
        found = classes.values(group)[1]
        assert found == Hyperparameters(description).values(group)[1] != before
        before, tried = dict(found), tried + 1
    assert tried or "lr" not in description.defaults


@pytest.mark.parametrize("bad", [-1.0, math.nan, "0.1", None])
def test_a_bad_value_after_good_ones_is_refused_and_forgotten(bad):
    param = torch.nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimizer = fallline.AdamW([param], lr=0.1)
    group = optimizer.param_groups[0]
    for rate in (0.1, 0.2):
        group["lr"] = rate
        optimizer.step()
    group["lr"] = bad
    before = param.detach().clone()
    with pytest.raises((TypeError, ValueError), match="lr must be"):
        optimizer.step()
    assert torch.equal(param, before)
    group["lr"] = 0.3
    optimizer.step()
    twin = torch.nn.Parameter(torch.ones(3))
    twin.grad = torch.ones(3)
    reference = torch.optim.AdamW([twin])
    for rate in (0.1, 0.2, 0.3):
        reference.param_groups[0]["lr"] = rate
        reference.step()
    torch.testing.assert_close(param, twin)


def test_conditions_on_several_values_hold_for_changed_ones_too():
    param = torch.nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimizer = fallline.SGD([param], lr=0.1, momentum=0.9, nesterov=True)
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.8
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.0
    with pytest.raises(ValueError, match=r"[Nn]esterov"):
        optimizer.step()


@pytest.mark.parametrize("how", LOWERINGS)
@pytest.mark.parametrize("kept", [False, True], ids=["new", "once on before"])
def test_momentum_switched_on_in_the_middle_begins_as_in_torch(how, kept):
    """With the gradient, undampened, whichever step it is; a buffer of before goes on."""
    options = {"lr": 0.1, "momentum": 0.9 if kept else 0.0, "dampening": 0.5, "weight_decay": 0.1}
    ours = fallline.SGD(params := parameters((6, 5), (9,)), **options, **LOWERINGS[how])
    theirs = torch.optim.SGD(reference := parameters((6, 5), (9,)), **options)
    for steps, momentum in ((range(2), options["momentum"]), (range(2, 4), 0.0), (range(4, 7), 0.8)):
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["momentum"] = momentum
            run(optimizer, steps)
    assert_near(values(params), values(reference))


def test_a_bound_switched_on_in_the_middle_is_of_the_norm_at_that_step():
    (param,) = params = parameters((6, 5))
    optimizer = fallline.Fromage(params, lr=0.1)
    run(optimizer, 2)
    optimizer.param_groups[0]["p_bound"] = 2.0
    norm = param.detach().norm()
    run(optimizer, range(2, 4))
    torch.testing.assert_close(float(optimizer.state[param]["initial_norm"]), float(norm), rtol=1e-6, atol=0)
