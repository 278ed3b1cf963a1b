"""pytorch_optimizer, the package that most people install: the same as its authors' code, or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fallline
from tests.authors.packages import class_of
from tests.authors.trajectories import SAME, apart, explained

pytestmark = pytest.mark.usefixtures("one_thread")


def theirs(name: str) -> Any:
    return class_of("pytorch_optimizer", name)


Case = tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]
CASES: list[Case] = [
    ("Adan", "Adan", dict(lr=0.1, weight_decay=0.1), {}, {}),
    ("Adan", "Adan", dict(lr=0.1, weight_decay=0.1), dict(weight_decouple=True), dict(no_prox=True)),
    ("QHM", "QHM", dict(lr=0.1, momentum=0.9, nu=0.7, weight_decay=0.1), {}, {}),
    ("Lion", "Lion", dict(lr=0.1, weight_decay=0.1), {}, {}),
    ("SGDP", "SGDP", dict(lr=0.1, momentum=0.9, weight_decay=0.1, delta=10.0, nesterov=True), {}, {}),
    ("SGDP", "SGDP", dict(lr=0.1, momentum=0.9, weight_decay=0.1, delta=0.0), {}, {}),
    ("AdamP", "AdamP", dict(lr=0.1, weight_decay=0.1, delta=10.0, eps=0.0), {}, {}),
    (
        "AdaFactor",
        "Adafactor",
        dict(lr=None, weight_decay=0.1, relative_step=True),
        dict(betas=(None, 0.999)),
        dict(variant="hf"),
    ),
    (
        "AdaFactor",
        "Adafactor",
        dict(lr=0.1, relative_step=False),
        dict(betas=(0.9, 0.999), momentum_dtype=torch.float64),
        dict(variant="hf", beta1=0.9),
    ),
    ("ScheduleFreeSGD", "ScheduleFreeSGD", dict(lr=0.1, weight_decay=0.1, r=0.5, warmup_steps=5), {}, {}),
    ("AdaDelta", "Adadelta", dict(lr=5.0, weight_decay=0.1), {}, {}),
    ("AdaMax", "Adamax", dict(lr=0.1), {}, {}),
    ("Fromage", "Fromage", dict(lr=0.1), {}, {}),
    ("Fromage", "Fromage", dict(lr=0.1, p_bound=1.1), {}, {}),
    ("AdEMAMix", "AdEMAMix", dict(lr=0.1, weight_decay=0.1, alpha=2.0), dict(weight_decouple=True), {}),
    ("RAdam", "RAdam", dict(lr=0.1), dict(degenerated_to_sgd=True), {}),
    (
        "RAdam",
        "RAdam",
        dict(lr=0.1, weight_decay=0.1),
        dict(degenerated_to_sgd=True),
        dict(decoupled_weight_decay=True),
    ),
]


@pytest.mark.parametrize("dtype", SAME, ids=str)
@pytest.mark.parametrize(("there", "ours", "options", "more", "here"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_trajectories_are_theirs(
    there: str, ours: str, options: dict[str, Any], more: dict[str, Any], here: dict[str, Any], dtype: torch.dtype
) -> None:
    make = theirs(there)
    more = {name: dtype if name == "momentum_dtype" else value for name, value in more.items()}
    far = apart(
        lambda p: make(p, **options, **more), lambda p: getattr(fallline, ours)(p, **options, **here), dtype=dtype
    )
    assert far <= SAME[dtype]


NEARLY: list[tuple[str, str, dict[str, Any], dict[str, Any], float, tuple[str, ...]]] = [
    # The same equations with numbers that they keep in float32.
    ("QHAdam", "QHAdam", dict(lr=0.1, nus=(0.8, 0.9), weight_decay=0.1), {}, 1e-6, ("pytorch_optimizer", "float32")),
    ("Prodigy", "Prodigy", dict(d0=1e-2, weight_decay=0.1), {}, 1e-6, ("pytorch_optimizer", "float32")),
    (
        "Prodigy",
        "Prodigy",
        dict(d0=1e-2, safeguard_warmup=True),
        {},
        1e-6,
        ("pytorch_optimizer", "float32"),
    ),
    # An ε more, and an ε at another place.
    (
        "ScheduleFreeAdamW",
        "ScheduleFreeAdamW",
        dict(lr=0.1, weight_decay=0.1, r=0.5, warmup_steps=5),
        {},
        1e-8,
        ("pytorch_optimizer", "1e-15"),
    ),
    ("AdamP", "AdamP", dict(lr=0.1, weight_decay=0.1, delta=10.0), {}, 1e-3, ("pytorch_optimizer", "ε")),
]


@pytest.mark.parametrize(("there", "ours", "options", "here", "near", "words"), NEARLY, ids=lambda x: str(x)[:40])
def test_small_differences_have_a_reason(
    there: str, ours: str, options: dict[str, Any], here: dict[str, Any], near: float, words: tuple[str, ...]
) -> None:
    make = theirs(there)
    far = apart(lambda p: make(p, **options), lambda p: getattr(fallline, ours)(p, **options, **here))
    assert 1e-12 < far <= near
    assert explained(fallline.info(ours).name, *words)


# ---------------------------------------------------------------------------- deviations


@pytest.mark.parametrize("package", ["pytorch_optimizer", "timm.optim.sgdp"])
def test_sgdp_there_forgets_the_projection_of_its_buffer(package: str) -> None:
    make = class_of(package, "SGDP")
    options: dict[str, Any] = dict(lr=0.1, momentum=0.9, delta=10.0)
    assert apart(lambda p: make(p, **options), lambda p: fallline.SGDP(p, **options)) > 0.1
    assert explained("sgdp", package.partition(".")[0], "buffer")


def test_adopt_there_clips_one_step_later_and_decays_in_the_first() -> None:
    make = theirs("ADOPT")
    assert apart(lambda p: make(p, lr=0.1), lambda p: fallline.ADOPT(p, lr=0.1)) > 1e-2

    def as_authors(step: float) -> float:
        return float((step - 1) ** 0.25)

    same: dict[str, Any] = dict(lr=0.1, clip_lambda=as_authors)
    assert apart(lambda p: make(p, **same), lambda p: fallline.ADOPT(p, lr=0.1)) <= 1e-12
    decoupled = apart(
        lambda p: make(p, **same, weight_decay=0.1, weight_decouple=True),
        lambda p: fallline.ADOPT(p, lr=0.1, weight_decay=0.1, decouple=True),
    )
    assert decoupled > 1e-3
    assert explained("adopt", "pytorch_optimizer", "t^0.25", "first step")


@pytest.mark.parametrize("shape", [(7, 5), (6,), (4, 3, 2)])
def test_amos_there_has_the_wrong_sign_in_extra_l2(shape: tuple[int, ...]) -> None:
    make = theirs("Amos")
    eta = make.get_scale(torch.zeros(shape))
    for options in ({}, {"momentum": 0.9}):
        far = apart(
            lambda p, o=options: make(p, lr=0.1, **o),
            lambda p, o=options: fallline.Amos(p, lr=0.1, eta=eta, **o),
            shapes=[shape],
        )
        assert far <= 1e-12

    def with_l2(params: list[Tensor]) -> Any:
        return make(params, lr=0.1, extra_l2=0.1)

    assert apart(with_l2, lambda p: fallline.Amos(p, lr=0.1, eta=eta, extra_l2=0.1), shapes=[shape]) > 0.1
    still = torch.ones(shape, requires_grad=True)
    grown = []
    for optimizer in (make([still], lr=0.1, extra_l2=0.1), fallline.Amos([still], lr=0.1, extra_l2=0.1)):
        with torch.no_grad():
            still.fill_(1.0)
        still.grad = torch.zeros(shape)
        optimizer.step()
        grown.append(float(still.detach().mean()) - 1.0)
    assert grown[0] == pytest.approx(0.05, rel=1e-5)
    assert grown[1] == pytest.approx(-0.1, rel=1e-5)
    assert explained("amos", "pytorch_optimizer", "wrong sign")


def test_lamb_there_is_another_method() -> None:
    make = theirs("Lamb")
    common: dict[str, Any] = dict(lr=0.01, weight_decay=0.1)
    assert apart(lambda p: make(p, **common), lambda p: fallline.LAMB(p, **common)) > 0.1
    # Without any correction, clipping and decay, with ε that does not count, little is left.
    near = apart(
        lambda p: make(p, lr=0.01, weight_decay=0.0, eps=1e-12, pre_norm=False, adam_debias=True),
        lambda p: fallline.LAMB(
            p, lr=0.01, weight_decay=0.0, eps=1e-12, max_grad_norm=None, bias_correction=False, always_adapt=True
        ),
    )
    assert near <= 1e-9
    assert explained("lamb", "pytorch_optimizer", "bias correction")


def test_mars_there_takes_more_tensors_for_matrices() -> None:
    make = theirs("MARS")

    def far(*shapes: tuple[int, ...], **options: Any) -> float:
        common = dict(lr=0.1, weight_decay=0.1, **options)
        return apart(lambda p: make(p, **common), lambda p: fallline.MARS(p, **common), shapes=list(shapes))

    assert far((7, 5), eps=0.0) <= 1e-8
    assert 1e-6 < far((7, 5)) < 1e-3
    assert far((4, 3, 2), eps=0.0) > 1e-2
    assert explained("mars", "pytorch_optimizer", "two or more axes", "ε")


def test_half_lives_of_ademamix_differ_by_their_constant() -> None:
    make = theirs("AdEMAMix")
    far = apart(
        lambda p: make(p, lr=0.1, alpha=2.0, t_alpha_beta3=15),
        lambda p: fallline.AdEMAMix(p, lr=0.1, alpha_warmup=15, beta3_warmup=15),
    )
    assert 1e-9 < far < 1e-5
    assert make([torch.ones(1, requires_grad=True)]).defaults["alpha"] == 5.0
    assert explained("ademamix", "pytorch_optimizer", "alpha=5", "1e-8")


def test_radam_there_waits_instead() -> None:
    make = theirs("RAdam")
    p = torch.ones(3, requires_grad=True)
    optimizer = make([p], lr=0.1)
    for _ in range(5):
        p.grad = torch.ones(3)
        optimizer.step()
    assert torch.equal(p.detach(), torch.ones(3))
    assert explained("radam", "pytorch_optimizer", "no step")


def test_clipping_of_adan_there_fails_for_numbers() -> None:
    make = theirs("Adan")
    options: dict[str, Any] = dict(lr=0.1, max_grad_norm=0.5)
    with pytest.raises(RuntimeError, match="broadcast"):
        apart(lambda p: make(p, **options), lambda p: fallline.Adan(p, **options), shapes=[()])
    assert apart(lambda p: make(p, **options), lambda p: fallline.Adan(p, **options), shapes=[(7, 5), (6,)]) < 1e-6
    assert explained("adan", "pytorch_optimizer", "max_grad_norm")


def test_first_moment_of_adafactor_there_is_bfloat16() -> None:
    make = theirs("AdaFactor")
    far = apart(
        lambda p: make(p, lr=0.1, betas=(0.9, 0.999), relative_step=False),
        lambda p: fallline.Adafactor(p, variant="hf", lr=0.1, beta1=0.9, relative_step=False),
    )
    assert 1e-4 < far < 0.1
    assert explained("adafactor", "pytorch_optimizer", "bfloat16")
