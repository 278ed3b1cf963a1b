"""timm's optimizers: the same where it says so, and where not, why."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fallline
from tests.authors.packages import timm_class
from tests.authors.trajectories import SAME, apart, explained, path

pytestmark = pytest.mark.usefixtures("one_thread")

# Their file and class, ours, common options, options that have another name there.
Case = tuple[tuple[str, str], str, dict[str, Any], dict[str, Any], dict[str, Any]]
LAMB = ("lamb", "Lamb")
CASES: list[Case] = [
    (("adan", "Adan"), "Adan", dict(lr=0.1, weight_decay=0.1), {}, {}),
    (("adan", "Adan"), "Adan", dict(lr=0.1, weight_decay=0.1, no_prox=True), dict(foreach=False), {}),
    (("adamp", "AdamP"), "AdamP", dict(lr=0.1, weight_decay=0.1, delta=10.0), {}, {}),
    (("sgdp", "SGDP"), "SGDP", dict(lr=0.1, momentum=0.9, weight_decay=0.1, delta=10.0, nesterov=True), {}, {}),
    (("nadamw", "NAdamW"), "NAdamW", dict(lr=0.1, weight_decay=0.1), {}, {}),
    (("lion", "Lion"), "Lion", dict(lr=0.1, weight_decay=0.1), {}, {}),
    (("adamw", "AdamWLegacy"), "AdamW", dict(lr=0.1, weight_decay=0.1, amsgrad=True), {}, {}),
    (("adopt", "Adopt"), "ADOPT", dict(lr=0.1, weight_decay=0.1, clip_exp=0.25), dict(foreach=False), {}),
    (
        ("adopt", "Adopt"),
        "ADOPT",
        dict(lr=0.1, weight_decay=0.1, clip_exp=0.333),
        dict(decoupled=True, foreach=False),
        dict(decouple=True),
    ),
    (LAMB, "LAMB", dict(lr=0.1, weight_decay=0.1), {}, {}),
    (LAMB, "LAMB", dict(lr=0.1, weight_decay=0.1, trust_clip=True, max_grad_norm=None), {}, {}),
    (LAMB, "LAMB", dict(lr=0.1, weight_decay=0.0, always_adapt=True, grad_averaging=False), {}, {}),
    (LAMB, "LAMB", dict(lr=0.1, weight_decay=0.1, decoupled_decay=True, bias_correction=False), {}, {}),
    # Caution: the mask of any rule, from the step that is subtracted and the gradient.
    (("adamw", "AdamWLegacy"), "AdamW", dict(lr=0.1, weight_decay=0.1), dict(caution=True), dict(cautious=True)),
    (("nadamw", "NAdamW"), "NAdamW", dict(lr=0.1, weight_decay=0.1), dict(caution=True), dict(cautious=True)),
    (("lion", "Lion"), "Lion", dict(lr=0.1, weight_decay=0.1), dict(caution=True), dict(cautious=True)),
    (LAMB, "LAMB", dict(lr=0.1, weight_decay=0.1, max_grad_norm=None), dict(caution=True), dict(cautious=True)),
]


@pytest.mark.parametrize("dtype", SAME, ids=str)
@pytest.mark.parametrize(("theirs", "ours", "options", "there", "here"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_trajectories_are_timms(
    theirs: tuple[str, str],
    ours: str,
    options: dict[str, Any],
    there: dict[str, Any],
    here: dict[str, Any],
    dtype: torch.dtype,
) -> None:
    make = timm_class(*theirs)
    far = apart(
        lambda p: make(p, **options, **there), lambda p: getattr(fallline, ours)(p, **options, **here), dtype=dtype
    )
    assert far <= SAME[dtype]


# ---------------------------------------------------------------------------- deviations


@pytest.mark.parametrize("lr", [None, 0.1])
@pytest.mark.parametrize("beta1", [None, 0.9])
def test_adafactor_is_the_hf_variant_where_timm_factors_the_same_axes(beta1: float | None, lr: float | None) -> None:
    """It does so for matrices with more than 16 rows and columns, and never for others; a given lr is not relative."""
    make = timm_class("adafactor", "Adafactor")
    betas = None if beta1 is None else (beta1, 0.0)
    rate: dict[str, Any] = dict(lr=lr, relative_step=lr is None, scale_parameter=lr is None)

    def theirs(params: Any) -> Any:
        return make(params, lr=lr, weight_decay=0.1, betas=betas)

    def ours(params: Any) -> Any:
        return fallline.Adafactor(params, variant="hf", beta1=beta1, weight_decay=0.1, **rate)

    same: Any = [(17, 19), (33,), ()]
    assert apart(theirs, ours, shapes=same) <= 1e-12
    assert apart(theirs, ours, shapes=[(7, 5)]) > 1e-3
    assert apart(theirs, ours, shapes=[(17, 18, 3, 3)], steps=5) > 1e-3
    assert explained("adafactor", "timm", "16", "convolution")


def test_adopt_of_timm_has_another_default() -> None:
    make = timm_class("adopt", "Adopt")
    assert apart(lambda p: make(p, lr=0.1, foreach=False), lambda p: fallline.ADOPT(p, lr=0.1)) > 1e-3
    assert apart(lambda p: make(p, lr=0.1, foreach=False), lambda p: fallline.ADOPT(p, lr=0.1, clip_exp=0.333)) < 1e-12
    assert explained("adopt", "timm", "0.333")


def test_mars_of_timm_is_ours_from_the_second_step_on() -> None:
    """Its first gradient is not corrected."""
    make = timm_class("mars", "Mars")
    own: dict[str, Any] = dict(lr=0.1, betas=(0.9, 0.99), weight_decay=0.1)
    rest: dict[str, Any] = dict(lr_1d=0.1, betas_1d=(0.9, 0.99), weight_decay_1d=0.1)
    # With gradients short enough not to be clipped: clipping would take the difference back.
    far = apart(lambda p: make(p, **own), lambda p: fallline.MARS(p, **own, **rest), shapes=[(7, 5)], scale=1e-3)
    assert far > 1e-3
    # Without a correction nothing is left to differ.
    short = apart(
        lambda p: make(p, **own, gamma=0.0),
        lambda p: fallline.MARS(p, **own, **rest, gamma=0.0),
        shapes=[(7, 5), (6,)],
        scale=1e-3,
    )
    assert short <= 1e-12
    cube = apart(lambda p: make(p, **own), lambda p: fallline.MARS(p, **own, **rest), shapes=[(4, 3, 2)])
    assert cube > 1e-2
    assert explained("mars", "timm", "first step", "two or more axes")


def test_rmsprop_tf_is_another_method() -> None:
    make = timm_class("rmsprop_tf", "RMSpropTF")
    options: dict[str, Any] = dict(lr=0.01, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.9)
    far = apart(lambda p: make(p, **options), lambda p: fallline.RMSprop(p, **options, eps_inside=True))
    assert far > 0.1

    def started_at_one(params: list[torch.Tensor]) -> Any:
        """Ours from the same start: with a constant rate, scaling before or after the sum is the same."""
        optimizer = fallline.RMSprop(params, **options, eps_inside=True)
        for p in params:
            optimizer.state[p] = {
                "step": torch.tensor(1.0),
                "square_avg": torch.ones_like(p),
                "momentum_buffer": torch.zeros_like(p),
            }
        return optimizer

    assert apart(lambda p: make(p, **options), started_at_one) <= 1e-12
    assert explained("rmsprop", "RMSpropTF", "starts v at 1")


def test_caution_of_timms_adan_masks_a_part_of_the_step() -> None:
    make = timm_class("adan", "Adan")
    far = apart(lambda p: make(p, lr=0.1, caution=True), lambda p: fallline.Adan(p, lr=0.1, cautious=True))
    assert far > 1e-2
    # With β₂ = 0 the mean of the differences does not enter the step.
    betas = (0.9, 0.0, 0.99)
    alike = apart(
        lambda p: make(p, lr=0.1, betas=betas, caution=True),
        lambda p: fallline.Adan(p, lr=0.1, betas=betas, cautious=True),
    )
    assert alike <= 1e-12
    assert explained("adan", "timm", "caution")


def test_lamb_of_timm_counts_steps_without_gradients() -> None:
    counted = []
    for make in (timm_class(*LAMB), fallline.LAMB):
        p, other = torch.tensor([3.0, 4.0], requires_grad=True), torch.ones(1, requires_grad=True)
        other.grad = torch.zeros(1)
        optimizer = make([{"params": [p]}, {"params": [other]}])
        optimizer.step()  # the first group has no gradient yet
        counted.append(int(optimizer.param_groups[0].get("step", 0)))
        assert p.grad is None
    assert counted == [1, 0]
    assert explained("lamb", "does not advance")


def test_a_comparison_can_fail() -> None:
    a = path(lambda p: fallline.AdamW(p, lr=0.1))
    b = path(lambda p: fallline.AdamW(p, lr=0.1001))
    assert float((a - b).abs().max()) > 1e-4
