"""The lecture's claims about the methods, each as a small problem on which it must show."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fallline

pytestmark = pytest.mark.usefixtures("one_thread")


def best(run: Callable[[float], float], rates: tuple[float, ...]) -> float:
    """The least loss over the rates: a method that is only badly tuned proves nothing."""
    return min(loss for loss in map(run, rates) if math.isfinite(loss))


# ---------------------------------------------------------------------------- AdaGrad


def test_adagrads_steps_shrink() -> None:
    """Whatever the gradients are, the rate of every coordinate only falls; RMSprop's does not."""
    random = torch.Generator().manual_seed(0)
    gradients = torch.randn(200, 6, generator=random, dtype=torch.float64) * torch.logspace(-2, 1, 6)

    def rates(name: str) -> Tensor:
        p = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        optimizer = getattr(fallline, name)([p], lr=1.0)
        seen = []
        for g in gradients:
            before = p.detach().clone()
            p.grad = g
            optimizer.step()
            seen.append((before - p.detach()) / g)
        return torch.stack(seen)

    falls = rates("Adagrad").diff(dim=0)
    assert bool((falls <= 0).all())
    assert bool((rates("RMSprop").diff(dim=0) > 0).any())


def test_adagrads_steps_shrink_like_one_over_the_root_of_time() -> None:
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = fallline.Adagrad([p], lr=1.0)
    moved = []
    for _ in range(100):
        before = p.item()
        p.grad = torch.full_like(p, 3.0)
        optimizer.step()
        moved.append(before - p.item())
    assert moved == pytest.approx([1 / math.sqrt(t) for t in range(1, 101)], rel=1e-9)


def test_rare_features_keep_larger_steps() -> None:
    """A feature that is seen every tenth time: SGD moves it no further when it comes, AdaGrad three times as far."""

    def last_moves(name: str) -> Tensor:
        p = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        optimizer = getattr(fallline, name)([p], lr=1.0)
        for t in range(1, 101):
            before = p.detach().clone()
            p.grad = torch.tensor([1.0, 1.0 if t % 10 == 0 else 0.0], dtype=torch.float64)
            optimizer.step()
        return before - p.detach()

    common, rare = last_moves("Adagrad").tolist()
    assert rare / common == pytest.approx(math.sqrt(10.0), rel=1e-9)
    assert last_moves("SGD").tolist() == [1.0, 1.0]


def test_adagrad_beats_sgd_on_a_sparse_problem() -> None:
    """Logistic regression on words that follow Zipf's law, both with the best of five rates."""
    random = torch.Generator().manual_seed(0)
    words, texts = 60, 400
    x = (torch.rand(texts, words, generator=random) < 1 / torch.arange(1, words + 1)).float()
    truth = 2 * torch.randn(words, generator=random)
    y = (torch.rand(texts, generator=random) < torch.sigmoid(x @ truth)).float()
    order = [i for _ in range(5) for i in torch.randperm(texts, generator=random).split(4)]

    def loss(name: str, lr: float) -> float:
        p = torch.zeros(words, requires_grad=True)
        optimizer = getattr(fallline, name)([p], lr=lr)
        for i in order:
            p.grad = x[i].t() @ (torch.sigmoid(x[i] @ p.detach()) - y[i]) / len(i)
            optimizer.step()
        return float(torch.nn.functional.binary_cross_entropy_with_logits(x @ p.detach(), y))

    rates = (0.03, 0.1, 0.3, 1.0, 3.0)
    assert best(lambda lr: loss("Adagrad", lr), rates) < 0.95 * best(lambda lr: loss("SGD", lr), rates)


# ---------------------------------------------------------------------------- RMSprop


def test_rmsprop_follows_what_adagrad_no_longer_can() -> None:
    """A target that jumps back and forth, after a start with gradients a hundred times as large.  AdaGrad remembers
    that start for ever."""

    def error(name: str, lr: float, **options: Any) -> float:
        random = torch.Generator().manual_seed(0)
        x = torch.zeros(4, requires_grad=True)
        optimizer = getattr(fallline, name)([x], lr=lr, **options)
        total = 0.0
        for t in range(1500):
            target = 1.0 if (t // 250) % 2 == 0 else -1.0
            size = 100.0 if t < 100 else 1.0
            x.grad = size * (x.detach() - target + 0.1 * torch.randn(4, generator=random))
            optimizer.step()
            total += float((x.detach() - target).square().mean()) if t >= 500 else 0.0
        return total / 1000

    rates = (0.03, 0.1, 0.3, 1.0)
    forgetting = best(lambda lr: error("RMSprop", lr, alpha=0.9), rates)
    assert forgetting < 0.2 * best(lambda lr: error("Adagrad", lr), rates)


# ---------------------------------------------------------------------------- Adadelta


def layers(name: str, scale: float, steps: int = 1500, **options: Any) -> tuple[float, float]:
    """How far two layers are from their optimum at 0, when the gradients of the second are ``scale`` times as large."""
    a, b = (torch.ones(5, requires_grad=True) for _ in range(2))
    optimizer = getattr(fallline, name)([a, b], **options)
    for _ in range(steps):
        a.grad, b.grad = a.detach().clone(), scale * b.detach()
        optimizer.step()
    return float(a.detach().abs().max()), float(b.detach().abs().max())


def test_adadelta_needs_no_rate_where_layers_differ_in_scale() -> None:
    """Gradients that differ by four orders of magnitude: no rate of SGD serves both layers."""
    assert max(layers("Adadelta", 1e4)) < 0.05
    for lr in (1e-5, 1e-4, 1.9e-4, 1e-3, 0.1):
        a, b = layers("SGD", 1e4, lr=lr)
        assert not (a < 0.5 and b < 0.5)


@pytest.mark.parametrize("scale", [1e-2, 1e2, 1e6])
def test_adadeltas_steps_do_not_depend_on_the_scale_of_the_loss(scale: float) -> None:
    """While ε is small beside squared gradients; SGD's steps are proportional to it."""

    def first_steps(name: str, factor: float, **options: Any) -> Tensor:
        p = torch.linspace(1.0, 2.0, 8, dtype=torch.float64).requires_grad_()
        optimizer = getattr(fallline, name)([p], **options)
        for _ in range(20):
            p.grad = factor * p.detach()
            optimizer.step()
        return 1.0 - p.detach() / torch.linspace(1.0, 2.0, 8, dtype=torch.float64)

    torch.testing.assert_close(first_steps("Adadelta", scale), first_steps("Adadelta", 1.0), rtol=0.1, atol=0.0)
    moved = first_steps("SGD", scale, lr=1e-9).mean() / first_steps("SGD", 1.0, lr=1e-9).mean()
    assert float(moved) == pytest.approx(scale, rel=0.05)


# ---------------------------------------------------------------------------- Adam


def test_bias_correction_matters_in_the_first_steps() -> None:
    """Without it the first step is (1−β₁)/√(1−β₂) = 3.16 times too long; after thousands nothing of that is left.
    LAMB without its ratio and decay is Adam, and has the switch."""

    def moves(steps: int, correct: bool, betas: tuple[float, float] = (0.9, 0.999)) -> list[float]:
        p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimizer = fallline.LAMB(
            [p], lr=1.0, betas=betas, eps=0.0, weight_decay=0.0, max_grad_norm=None, bias_correction=correct
        )
        seen = []
        for _ in range(steps):
            before = p.item()
            p.grad = torch.full_like(p, 5.0)
            optimizer.step()
            seen.append(before - p.item())
        return seen

    assert moves(10, True) == pytest.approx([1.0] * 10, rel=1e-12)
    expected = [(1 - 0.9**t) / math.sqrt(1 - 0.999**t) for t in range(1, 11)]
    assert moves(10, False) == pytest.approx(expected, rel=1e-12)
    assert moves(1, False)[0] == pytest.approx(math.sqrt(10.0), rel=1e-12)
    assert max(moves(10, False)) > 6.0, "it gets worse before it gets better"
    settled = moves(300, False, betas=(0.9, 0.95))
    assert abs(settled[0] - 1.0) > 0.5
    assert settled[-1] == pytest.approx(1.0, rel=1e-6)


def reddi(name: str, steps: int) -> float:
    """Where the online problem of Reddi et al. ends: f_t(x) = 1010·x if t mod 101 = 1, else −10·x, on [−1, 1].
    The mean slope is positive, so the optimum is −1."""
    x = torch.zeros(1, requires_grad=True)
    optimizer = getattr(fallline, name)([x], lr=0.5, betas=(0.9, 0.99))
    rare, usual = torch.tensor([1010.0]), torch.tensor([-10.0])
    for t in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = 0.5 / math.sqrt(t)
        x.grad = rare if t % 101 == 1 else usual
        optimizer.step()
        x.data.clamp_(-1.0, 1.0)
    return x.item()


def test_adam_fails_on_a_convex_problem_and_amsgrad_does_not() -> None:
    """Adam forgets the rare large gradient before it has undone the many small ones, and ends at the worst point."""
    assert reddi("Adam", 8080) > 0.6
    assert reddi("AMSGrad", 8080) < -0.8


# ---------------------------------------------------------------------------- AdamW


def shrunk(name: str, **options: Any) -> list[float]:
    """What is left of two weights after 200 steps, whose gradients are noise of size 0.1 and 10 around 0."""
    p = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(fallline, name)([p], lr=0.01, **options)
    size = torch.tensor([0.1, 10.0], dtype=torch.float64)
    for t in range(200):
        p.grad = size if t % 2 == 0 else -size
        optimizer.step()
    return p.tolist()


def test_adamw_decays_all_weights_alike_and_adam_with_l2_does_not() -> None:
    """In the gradient, the decay is divided by the size of the gradients too."""
    without = shrunk("AdamW", weight_decay=0.0)
    decoupled = [a / b for a, b in zip(shrunk("AdamW", weight_decay=0.1), without, strict=True)]
    coupled = [a / b for a, b in zip(shrunk("Adam", weight_decay=0.1), without, strict=True)]
    assert decoupled == pytest.approx([(1 - 0.01 * 0.1) ** 200] * 2, rel=0.01)
    assert coupled[0] < 0.7, "small gradients: nearly the whole step is decay"
    assert coupled[1] > 0.97, "large gradients: hardly any decay"


def test_without_momentum_scaling_l2_and_decay_are_the_same() -> None:
    """So it is the adaptive rate that makes the difference: in SGD both are one."""
    ends = []
    for weight_decay in (0.1, 0.0):
        p = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64).requires_grad_()
        optimizer = fallline.SGD([p], lr=0.1, weight_decay=weight_decay)
        for t in range(20):
            if weight_decay == 0.0:
                p.data.mul_(1 - 0.1 * 0.1)
            p.grad = torch.full_like(p, math.cos(t))
            optimizer.step()
        ends.append(p.detach())
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-12)
