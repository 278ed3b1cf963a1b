"""The authors' own packages: schedulefree, prodigyopt, lion-pytorch, qhoptim, adamp."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fallline
from tests.authors.packages import class_of
from tests.authors.trajectories import SAME, apart, explained

pytestmark = pytest.mark.usefixtures("one_thread")

SF_ADAMW = ("schedulefree", "AdamWScheduleFree")
SF_SGD = ("schedulefree", "SGDScheduleFree")
PRODIGY = ("prodigyopt", "Prodigy")
LION = ("lion_pytorch", "Lion")
QHM, QHADAM = ("qhoptim.pyt", "QHM"), ("qhoptim.pyt", "QHAdam")
ADAMP, SGDP = ("adamp", "AdamP"), ("adamp", "SGDP")

Case = tuple[tuple[str, str], str, dict[str, Any]]
CASES: list[Case] = [
    (SF_ADAMW, "ScheduleFreeAdamW", dict(lr=0.1)),
    (SF_ADAMW, "ScheduleFreeAdamW", dict(lr=0.1, weight_decay=0.1, warmup_steps=5, r=0.5, weight_lr_power=1.0)),
    (SF_ADAMW, "ScheduleFreeAdamW", dict(lr=0.1, betas=(0.5, 0.9), eps=1e-2, foreach=False)),
    (SF_SGD, "ScheduleFreeSGD", dict(lr=0.1)),
    (SF_SGD, "ScheduleFreeSGD", dict(lr=0.1, momentum=0.5, weight_decay=0.1, warmup_steps=5, r=0.5, foreach=False)),
    (PRODIGY, "Prodigy", dict(d0=1e-2)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, weight_decay=0.1)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, weight_decay=0.1, decouple=False)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, use_bias_correction=True)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, safeguard_warmup=True, lr=0.5)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, growth_rate=1.02)),
    (PRODIGY, "Prodigy", dict(d0=1e-2, betas=(0.0, 0.99))),
    (PRODIGY, "Prodigy", dict(d0=1e-2, beta3=0.8, d_coef=2.0, eps=1e-3)),
    (LION, "Lion", dict(lr=0.1)),
    (LION, "Lion", dict(lr=0.01, betas=(0.95, 0.98), weight_decay=0.5)),
    (QHM, "QHM", dict(lr=0.1, momentum=0.9, nu=0.7)),
    (QHM, "QHM", dict(lr=0.1, momentum=0.999, nu=0.3, weight_decay=0.1)),
    (QHM, "QHM", dict(lr=0.1, momentum=0.9, nu=0.7, weight_decay=0.1, weight_decay_type="direct")),
    (QHADAM, "QHAdam", dict(lr=0.1, nus=(0.8, 0.9))),
    (QHADAM, "QHAdam", dict(lr=0.1, nus=(0.7, 1.0), betas=(0.99, 0.9), eps=1e-2, weight_decay=0.1)),
    (QHADAM, "QHAdam", dict(lr=0.1, nus=(0.7, 1.0), weight_decay=0.1, decouple_weight_decay=True)),
    # delta = 10 projects every tensor by its rows, 0.1 some, 0.5 some rows and some tensors.
    (ADAMP, "AdamP", dict(lr=0.1, weight_decay=0.1)),
    (ADAMP, "AdamP", dict(lr=0.1, weight_decay=0.1, delta=10.0, wd_ratio=0.5)),
    (ADAMP, "AdamP", dict(lr=0.1, weight_decay=0.1, delta=0.5, nesterov=True, eps=1e-2)),
    (SGDP, "SGDP", dict(lr=0.1)),
    (SGDP, "SGDP", dict(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.1, delta=10.0)),
    (SGDP, "SGDP", dict(lr=0.1, momentum=0.9, weight_decay=0.1, delta=0.5, nesterov=True)),
]


@pytest.mark.parametrize("dtype", SAME, ids=str)
@pytest.mark.parametrize(("theirs", "ours", "options"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_trajectories_are_the_authors(
    theirs: tuple[str, str], ours: str, options: dict[str, Any], dtype: torch.dtype
) -> None:
    """In float64 through torch operations, in float32 through the native kernels."""
    make = class_of(*theirs)
    same = {name: value for name, value in options.items() if name != "foreach"}
    far = apart(lambda p: make(p, **options), lambda p: getattr(fallline, ours)(p, **same), dtype=dtype)
    # A sign that flips in float32, where two roundings disagree about zero, is a step of lr.
    assert far <= SAME[dtype]


@pytest.mark.parametrize("name", [SF_ADAMW, SF_SGD], ids=str)
def test_evaluation_weights_of_schedule_free_are_the_authors(name: tuple[str, str]) -> None:
    make = class_of(*name)
    ours = {"AdamWScheduleFree": fallline.ScheduleFreeAdamW, "SGDScheduleFree": fallline.ScheduleFreeSGD}[name[1]]
    weights = []
    for kind in (make, ours):
        torch.manual_seed(0)
        p = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
        optimizer = kind([p], lr=0.1, warmup_steps=3)
        optimizer.train()
        for _ in range(20):
            p.grad = torch.randn(7, 5, dtype=torch.float64) + p.detach()
            optimizer.step()
        trained = p.detach().clone()
        optimizer.eval()
        weights.append((trained, p.detach().clone()))
        optimizer.train()
        torch.testing.assert_close(p.detach(), trained, rtol=1e-12, atol=1e-12)
    for a, b in zip(*weights, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_lions_decoupled_option_is_a_decay_divided_by_the_first_rate() -> None:
    make = class_of(*LION)
    far = apart(
        lambda p: make(p, lr=0.05, weight_decay=0.01, decoupled_weight_decay=True),
        lambda p: fallline.Lion(p, lr=0.05, weight_decay=0.01 / 0.05),
    )
    assert far <= 1e-12
    assert explained("lion", "decoupled_weight_decay")


# ---------------------------------------------------------------------------- deviations


def one() -> torch.Tensor:
    return torch.tensor([1.0, -2.0], requires_grad=True)


def test_schedule_free_of_the_authors_begins_in_eval_mode() -> None:
    p = one()
    p.grad = torch.ones(2)
    with pytest.raises(Exception, match="train mode"):
        class_of(*SF_ADAMW)([p]).step()
    fallline.ScheduleFreeAdamW([p]).step()
    assert explained("schedule_free_adamw", "train mode")
    assert explained("schedule_free_sgd", "train mode")


@pytest.mark.parametrize("name", [QHM, QHADAM], ids=str)
def test_coupled_decay_of_qhoptim_changes_the_gradient(name: tuple[str, str]) -> None:
    options = dict(lr=0.1, weight_decay=0.5) | (dict(momentum=0.9, nu=0.7) if name is QHM else {})
    gradients = []
    for make in (class_of(*name), getattr(fallline, name[1])):
        p = one()
        p.grad = torch.ones(2)
        make([p], **options).step()
        gradients.append(p.grad.tolist())
    assert gradients == [[1.5, 0.0], [1.0, 1.0]]
    assert explained(name[1].lower(), "gradient in place")


def test_a_group_of_prodigy_with_rate_zero_only_rests_here() -> None:
    """The source's goes on with the momentum that the group had."""
    moved = []
    for make in (class_of(*PRODIGY), fallline.Prodigy):
        p, q = one(), one()
        optimizer = make([{"params": [p]}, {"params": [q]}], d0=1e-2)
        for step in range(6):
            if step == 5:
                optimizer.param_groups[1]["lr"] = 0.0
                before = q.detach().clone()
            for x in (p, q):
                x.grad = x.detach() + 0.5
            optimizer.step()
        moved.append(float((q.detach() - before).abs().max()))
    assert moved[0] > 1e-3
    assert moved[1] == 0.0
    assert explained("prodigy", "lr 0", "momentum")


def test_prodigys_of_the_authors_reads_the_first_groups_settings() -> None:
    groups = [{"params": [one()]}, {"params": [one()], "d0": 1.0}]
    class_of(*PRODIGY)(groups)
    with pytest.raises(ValueError, match="d0 must be the same"):
        fallline.Prodigy([{"params": [one()]}, {"params": [one()], "d0": 1.0}])
    assert explained("prodigy", "first group")


def test_slices_of_prodigy_are_an_approximation_that_we_do_not_make() -> None:
    make = class_of(*PRODIGY)
    whole = apart(lambda p: make(p, d0=1e-2, slice_p=1), lambda p: fallline.Prodigy(p, d0=1e-2), shapes=[(7, 5)])
    sliced = apart(lambda p: make(p, d0=1e-2, slice_p=4), lambda p: fallline.Prodigy(p, d0=1e-2), shapes=[(7, 5)])
    assert whole <= 1e-12
    assert sliced > 1e-3
    assert explained("prodigy", "slice_p")


def test_the_buffer_of_sgdp_has_another_name() -> None:
    p, q = one(), one()
    theirs, ours = class_of(*SGDP)([p], lr=0.1, momentum=0.9), fallline.SGDP([q], lr=0.1, momentum=0.9)
    for optimizer, x in ((theirs, p), (ours, q)):
        x.grad = torch.ones(2)
        optimizer.step()
    torch.testing.assert_close(theirs.state[p]["momentum"], ours.state[q]["momentum_buffer"])
    assert explained("sgdp", "momentum_buffer")
