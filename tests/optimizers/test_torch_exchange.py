"""Adadelta, NAdam, RAdam and Adamax: runs go on in torch.optim and come back."""

import copy

import pytest
import torch

import fallline
from tests.contract.trajectories import assert_near, assert_same, named, parameters, run, values

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [(6, 5), (9,), ()]
CASES = [
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.02}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Adamax", {"lr": 0.01, "betas": (0.8, 0.9), "weight_decay": 0.1}),
]


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=named)
def test_run_continues_in_the_other_library(name, options, direction):
    ours, theirs = getattr(fallline, name), getattr(torch.optim, name)
    first, second = (theirs, ours) if direction == "from torch" else (ours, theirs)
    here, there, reference = parameters(*SHAPES), parameters(*SHAPES), parameters(*SHAPES)
    run(whole := theirs(reference, **options), 12)
    start = first(here, **options)
    run(start, 6)
    for p, q in zip(there, here, strict=True):
        p.data.copy_(q.data)
    goes_on = second(there, **{**options, "lr": 123.0})
    goes_on.load_state_dict(start.state_dict())
    run(goes_on, range(6, 12))
    assert_near(values(there), values(reference))
    for p, q in zip(there, reference, strict=True):
        assert set(goes_on.state[p]) == set(whole.state[q])
        for key, value in whole.state[q].items():
            assert_near(goes_on.state[p][key].to(value.dtype), value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "options"), CASES, ids=named)
def test_there_and_back_changes_no_bit(name, options):
    """But for NAdam's product of momenta, of which torch keeps float32."""
    opt = getattr(fallline, name)(parameters(*SHAPES), **options)
    run(opt, 3)
    other = getattr(torch.optim, name)(parameters(*SHAPES), **options)
    other.load_state_dict(opt.state_dict())
    again = getattr(fallline, name)(parameters(*SHAPES), **options)
    again.load_state_dict(other.state_dict())
    before, after = opt.state_dict()["state"], again.state_dict()["state"]
    for number, entry in before.items():
        if "mu_product" in entry:
            entry["mu_product"] = entry["mu_product"].float().double()
        assert_same(after[number], entry)


@pytest.mark.parametrize(("name", "options"), CASES, ids=named)
def test_8_bit_states_are_exported(name, options):
    shapes = [(70, 70), (5,)]
    params, there = parameters(*shapes), parameters(*shapes)
    opt = getattr(fallline, name)(params, **options, state_dtype="int8")
    run(opt, 6)
    for p, q in zip(there, params, strict=True):
        p.data.copy_(q.data)
    theirs = getattr(torch.optim, name)(there, **options)
    theirs.load_state_dict(copy.deepcopy(fallline.export_for_torch(opt)))
    run(opt, range(6, 7))
    run(theirs, range(6, 7))
    assert_near(values(there), values(params))


def test_momenta_of_nadam_are_exported_as_torch_keeps_them():
    opt = fallline.NAdam(parameters((5,)))
    run(opt, 2)
    product = fallline.export_for_torch(opt)["state"][0]["mu_product"]
    assert product.dtype == torch.float32
    assert product.shape == ()
    assert opt.state_dict()["state"][0]["mu_product"].dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adagrad", {"eps_inside": True}),
        ("RMSprop", {"eps_inside": True}),
        ("Adadelta", {"gamma": 0.5}),
        ("Adam", {"variant": "optax"}),
    ],
)
def test_forms_that_torch_does_not_have_are_not_exported(name, options):
    """It would go on with other equations, silently."""
    opt = getattr(fallline, name)(parameters((5,)), **options)
    run(opt, 2)
    (option,) = options
    with pytest.raises(ValueError, match=rf"torch.optim.{name} is not {option}=.*use state_dict\(\)"):
        fallline.export_for_torch(opt)
