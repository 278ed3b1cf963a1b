"""Optimizers that must agree with others, each under its exact conditions, and differ as soon as one is broken."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import fallline

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 25
SHAPES = [(7, 5), (6,)]
Gradient = Callable[[int, Tensor], Tensor]


def noisy(step: int, p: Tensor) -> Tensor:
    """The gradient of a bowl around 1, with noise that depends on the step alone."""
    random = torch.Generator().manual_seed(step)
    return (p - 1.0) * 0.3 + torch.randn(p.shape, generator=random, dtype=p.dtype)


def growing(step: int, p: Tensor) -> Tensor:
    return noisy(0, torch.ones_like(p)) * 1.1**step


def falling(step: int, p: Tensor) -> Tensor:
    return noisy(0, torch.ones_like(p)) * 0.5**step


def constant(step: int, p: Tensor) -> Tensor:
    return noisy(0, torch.ones_like(p))


def short(step: int, p: Tensor) -> Tensor:
    """A gradient of norm below 1."""
    return noisy(step, p) * 0.01


def trajectory(
    make: Any,
    gradient: Gradient = noisy,
    steps: int = STEPS,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    **options: Any,
) -> list[list[Tensor]]:
    random = torch.Generator().manual_seed(3)
    params = [torch.randn(s, generator=random, dtype=torch.float64).requires_grad_() for s in shapes]
    optimizer = make(params, **options)
    path = []
    for step in range(steps):
        for p in params:
            p.grad = gradient(step, p.detach())
        optimizer.step()
        path.append([p.detach().clone() for p in params])
    return path


def agree(a: list[list[Tensor]], b: list[list[Tensor]]) -> bool:
    return all(
        torch.allclose(x, y, rtol=1e-10, atol=1e-12)
        for p, q in zip(a, b, strict=True)
        for x, y in zip(p, q, strict=True)
    )


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_qhm_without_its_buffer_is_sgd(beta: float, weight_decay: float) -> None:
    qhm = trajectory(fallline.QHM, lr=0.1, momentum=beta, nu=0.0, weight_decay=weight_decay)
    assert agree(qhm, trajectory(fallline.SGD, lr=0.1, weight_decay=weight_decay))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_qhm_on_its_buffer_alone_is_momentum_with_the_rate_divided(weight_decay: float) -> None:
    momentum = trajectory(fallline.SGD, lr=0.1, momentum=0.9, weight_decay=weight_decay)
    assert agree(trajectory(fallline.QHM, lr=1.0, momentum=0.9, nu=1.0, weight_decay=weight_decay), momentum)
    assert not agree(trajectory(fallline.QHM, lr=0.1, momentum=0.9, nu=1.0, weight_decay=weight_decay), momentum)


def test_qhm_with_nu_of_beta_is_nesterov() -> None:
    nesterov = trajectory(fallline.SGD, lr=0.1, momentum=0.9, nesterov=True)
    assert agree(trajectory(fallline.QHM, lr=1.0, momentum=0.9, nu=0.9), nesterov)
    assert not agree(trajectory(fallline.QHM, lr=1.0, momentum=0.9, nu=0.8), nesterov)


@pytest.mark.parametrize("decoupled", [False, True])
def test_qhadam_with_nus_of_one_is_adam(decoupled: bool) -> None:
    common: dict[str, Any] = dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    adam = trajectory(fallline.Adam, **common, decoupled_weight_decay=decoupled)
    assert agree(trajectory(fallline.QHAdam, **common, decouple_weight_decay=decoupled), adam)
    assert not agree(trajectory(fallline.QHAdam, **common, nus=(0.99, 1.0), decouple_weight_decay=decoupled), adam)


def test_qhadam_with_nu_of_beta_becomes_nadamw_when_its_weights_have_settled() -> None:
    """They differ by the bias correction of the gradient's own part alone, which goes like β₁^t."""
    common: dict[str, Any] = dict(lr=1e-3, betas=(0.5, 0.9), eps=1e-8, weight_decay=0.0)
    ahead = trajectory(fallline.QHAdam, **{**common, "nus": (0.5, 1.0)}, steps=80)
    nadamw = trajectory(fallline.NAdamW, **common, steps=80)

    def moves(path: list[list[Tensor]], step: int) -> Tensor:
        return torch.cat([(a - b).flatten() for a, b in zip(path[step], path[step - 1], strict=True)])

    assert not torch.allclose(ahead[0][0], nadamw[0][0], rtol=1e-4)
    torch.testing.assert_close(moves(ahead, 79), moves(nadamw, 79), rtol=1e-2, atol=1e-6)


def test_first_five_steps_of_radam_are_momentum() -> None:
    """At β2 = 0.999; then it divides."""

    def debiased(params: list[Tensor], lr: float) -> Any:
        """An SGD whose momentum is the mean of all gradients so far, weighted by age."""
        sums = [torch.zeros_like(p) for p in params]
        weights = [0.0]

        class Momentum:
            def step(self) -> None:
                weights[0] = 0.9 * weights[0] + 1.0
                for p, s in zip(params, sums, strict=True):
                    s.mul_(0.9).add_(p.grad)
                    p.data.sub_(lr * s / weights[0])

        return Momentum()

    radam = trajectory(fallline.RAdam, lr=0.1, steps=6)
    momentum = trajectory(debiased, lr=0.1, steps=6)
    assert agree(radam[:5], momentum[:5])
    assert not agree(radam[5:], momentum[5:])


def test_amsgrad_is_adam_as_long_as_the_second_moment_grows() -> None:
    common: dict[str, Any] = dict(lr=0.1, betas=(0.9, 0.9))
    assert agree(trajectory(fallline.AMSGrad, growing, **common), trajectory(fallline.Adam, growing, **common))
    assert not agree(trajectory(fallline.AMSGrad, falling, **common), trajectory(fallline.Adam, falling, **common))


def test_amsgrad_is_adam_with_its_option() -> None:
    assert agree(trajectory(fallline.AMSGrad, lr=0.1), trajectory(fallline.Adam, lr=0.1, amsgrad=True))


def test_amsgrads_of_different_sources_differ_where_they_should() -> None:
    """While the second moment grows, its largest value is the last one, corrected or not; the paper corrects nothing.
    When it falls, torch's largest v is still divided by a correction that shrinks, optax's is not."""
    common: dict[str, Any] = dict(lr=0.1, betas=(0.9, 0.9))
    forms = ("torch", "optax", "paper")
    grown, fallen = (
        {form: trajectory(fallline.AMSGrad, gradient, **common, variant=form) for form in forms}
        for gradient in (growing, falling)
    )
    assert agree(grown["torch"], grown["optax"])
    assert not agree(grown["torch"], grown["paper"])
    for one, other in itertools.combinations(forms, 2):
        assert not agree(fallen[one], fallen[other])


@pytest.mark.parametrize("variant", ["optax", "paper"])
def test_amsgrads_whose_denominator_never_shrinks(variant: str) -> None:
    """Without momentum, equal gradients after a large one then never make larger steps; torch's form does."""

    def moves(variant: str) -> list[float]:
        p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimizer = fallline.AMSGrad([p], lr=1.0, betas=(0.0, 0.9), eps=0.0, variant=variant)
        seen = [0.0]
        for step in range(12):
            p.grad = torch.full_like(p, 1.0 if step == 0 else 0.1)
            optimizer.step()
            seen.append(-p.item())
        return [b - a for a, b in itertools.pairwise(seen)][1:]

    assert max(moves(variant)) == pytest.approx(min(moves(variant)))
    assert moves("torch") == sorted(moves("torch"))
    assert moves("torch")[-1] > 1.5 * moves("torch")[0]


def test_nadamw_is_not_nadam() -> None:
    """Nor does a look-ahead of AdamW's step become torch's form when its momentum schedule is slow."""
    common: dict[str, Any] = dict(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    nadamw = trajectory(fallline.NAdamW, **common)
    assert not agree(nadamw, trajectory(fallline.NAdam, **common, decoupled_weight_decay=True))
    assert not agree(nadamw, trajectory(fallline.NAdam, **common, decoupled_weight_decay=True, momentum_decay=1e3))
    assert not agree(nadamw, trajectory(fallline.AdamW, **common))


def test_nadamp_with_a_square_root_is_nadamw() -> None:
    common: dict[str, Any] = dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    nadamw = trajectory(fallline.NAdamW, **common)
    assert agree(trajectory(fallline.NadamP, **common), nadamw)
    assert not agree(trajectory(fallline.NadamP, **common, power=2.01), nadamw)


def test_general_power_agrees_with_the_square_root_in_the_limit() -> None:
    """Two kernels compute them."""
    near = trajectory(fallline.NadamP, lr=0.1, power=2.0 + 1e-12)
    assert agree(near, trajectory(fallline.NadamP, lr=0.1, power=2.0))


def test_generalized_adam_is_nadamp_or_nesterov_sgd() -> None:
    common: dict[str, Any] = dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, power=1.5, eps_root=1e-2)
    assert agree(trajectory(fallline.GeneralizedAdam, **common), trajectory(fallline.NadamP, **common))
    for nesterov in (False, True):
        sgd = trajectory(fallline.SGD, lr=0.1, momentum=0.8, nesterov=nesterov)
        options: dict[str, Any] = dict(lr=0.1, betas=(0.8, 0.0), nesterov=nesterov, disable_preconditioning=True)
        assert agree(trajectory(fallline.GeneralizedAdam, **options), sgd)
        # Coupled decay enters the buffer, decoupled decay does not.
        sgd = trajectory(fallline.SGD, lr=0.1, momentum=0.8, nesterov=nesterov, weight_decay=0.1)
        assert not agree(trajectory(fallline.GeneralizedAdam, **options, weight_decay=0.1), sgd)


def test_nag_gs_that_starts_at_its_limit_is_nag4() -> None:
    """γ moves to μ; started there it stays."""
    assert agree(
        trajectory(fallline.NAGGS, lr=0.1, mu=0.7, gamma=0.7), trajectory(fallline.NAG4, lr=0.1, mu=0.7, gamma=0.7)
    )
    assert not agree(trajectory(fallline.NAGGS, lr=0.1, mu=0.7), trajectory(fallline.NAG4, lr=0.1, mu=0.7))


def test_gamma_of_nag_gs_moves_to_mu() -> None:
    p = torch.zeros(3, requires_grad=True)
    optimizer = fallline.NAGGS([p], lr=0.5, mu=0.2, gamma=3.0)
    seen = []
    for _ in range(60):
        p.grad = torch.ones(3)
        optimizer.step()
        seen.append(optimizer.param_groups[0]["gamma_t"])
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == pytest.approx(0.2, abs=1e-6)
    assert optimizer.param_groups[0]["gamma"] == 3.0


def test_ademamix_without_its_slow_mean_is_adamw() -> None:
    common: dict[str, Any] = dict(lr=0.1, eps=1e-3, weight_decay=0.1)
    adamw = trajectory(fallline.AdamW, **common, betas=(0.8, 0.95))
    assert agree(trajectory(fallline.AdEMAMix, **common, betas=(0.8, 0.95, 0.999), alpha=0.0), adamw)
    assert not agree(trajectory(fallline.AdEMAMix, **common, betas=(0.8, 0.95, 0.999), alpha=1.0), adamw)


def test_mars_without_correction_is_adamw_on_short_gradients() -> None:
    common: dict[str, Any] = dict(lr=0.1, betas=(0.8, 0.95), weight_decay=0.1)
    options: dict[str, Any] = dict(**common, gamma=0.0, optimize_1d=True)
    assert agree(trajectory(fallline.MARS, short, **options), trajectory(fallline.AdamW, short, **common))
    assert not agree(trajectory(fallline.MARS, noisy, **options), trajectory(fallline.AdamW, noisy, **common))


def test_mars_treats_everything_but_matrices_as_adamw() -> None:
    shapes = [(), (6,), (2, 3, 4)]
    mars = trajectory(fallline.MARS, shapes=shapes, lr=0.1, lr_1d=0.02, betas_1d=(0.8, 0.9), weight_decay_1d=0.3)
    assert agree(mars, trajectory(fallline.AdamW, shapes=shapes, lr=0.02, betas=(0.8, 0.9), weight_decay=0.3))


def test_adan_is_adam_on_constant_gradients() -> None:
    """Differences are 0, and the look-ahead is the gradient itself."""
    adan = trajectory(fallline.Adan, constant, lr=0.1, betas=(0.9, 0.7, 0.95), eps=1e-3)
    assert agree(adan, trajectory(fallline.Adam, constant, lr=0.1, betas=(0.9, 0.95), eps=1e-3))
    adan = trajectory(fallline.Adan, noisy, lr=0.1, betas=(0.9, 0.7, 0.95), eps=1e-3)
    assert not agree(adan, trajectory(fallline.Adam, noisy, lr=0.1, betas=(0.9, 0.95), eps=1e-3))


def test_adan_clipping_is_that_of_every_optimizer_but_for_its_constant() -> None:
    """max_grad_norm adds eps to the norm, clip_norm 1e-6."""
    own = trajectory(fallline.Adan, lr=0.1, eps=1e-6, max_grad_norm=0.5)
    assert agree(own, trajectory(fallline.Adan, lr=0.1, eps=1e-6, clip_norm=0.5))
    assert not agree(own, trajectory(fallline.Adan, lr=0.1, eps=1e-6))


def test_sophia_without_curvature_is_sign_descent_on_its_momentum() -> None:
    """Lion with both betas equal takes the same signs."""
    sophia = trajectory(fallline.SophiaG, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    assert agree(sophia, trajectory(fallline.Lion, lr=0.01, betas=(0.9, 0.9), weight_decay=0.1))


def test_first_step_of_adopt_moves_nothing() -> None:
    for options in ({}, {"decouple": True, "weight_decay": 0.5}, {"clip_exp": None}):
        start = trajectory(fallline.ADOPT, steps=1, lr=0.0)
        first, second = trajectory(fallline.ADOPT, steps=2, lr=0.1, **options)
        assert agree([first], start)
        assert not agree([second], start)


def test_adadelta_does_not_move_without_epsilon() -> None:
    """The first step would come from steps before it, of which there are none."""
    path = trajectory(fallline.Adadelta, constant, eps=0.0)
    assert agree(path, trajectory(fallline.Adadelta, constant, lr=0.0))
    assert not agree(path, trajectory(fallline.Adadelta, constant))


def test_adamax_divides_by_the_largest_gradient() -> None:
    """While gradients grow faster than the maximum decays, that is the current one."""
    path = trajectory(fallline.Adamax, growing, lr=0.1, betas=(0.0, 0.999), eps=0.0)
    steps = [a[0] - b[0] for a, b in zip(path[1:], path, strict=False)]
    sign = torch.sign(growing(0, path[0][0]))
    for step in steps:
        torch.testing.assert_close(step, -0.1 * sign)
