"""The lecture's methods as it writes them, two steps by hand: numbers that no code of ours has computed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import fallline

pytestmark = pytest.mark.usefixtures("one_thread")

START = (1.0, -2.0)
GRADIENTS = ((0.5, -1.0), (-0.25, 3.0))


def walked(name: str, **options: Any) -> list[float]:
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(fallline, name)([p], **options)
    for gradient in GRADIENTS:
        p.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return p.tolist()


def both(one: Any) -> list[float]:
    """A formula of one coordinate on both."""
    return [one(x, a, b) for x, a, b in zip(START, *GRADIENTS, strict=True)]


def test_sgd() -> None:
    assert walked("SGD", lr=0.1) == pytest.approx([0.975, -2.2], rel=1e-15)


def test_momentum() -> None:
    # b = 0.5, −1.0; then 0.9·0.5 − 0.25 = 0.2, 0.9·(−1) + 3 = 2.1.
    assert walked("SGD", lr=0.1, momentum=0.9) == pytest.approx([1 - 0.05 - 0.02, -2 + 0.1 - 0.21], rel=1e-14)


def test_nesterov() -> None:
    # d = g + 0.9 b: 0.95, −1.9; then −0.25 + 0.18 = −0.07, 3 + 1.89 = 4.89.
    expected = [1 - 0.095 + 0.007, -2 + 0.19 - 0.489]
    assert walked("SGD", lr=0.1, momentum=0.9, nesterov=True) == pytest.approx(expected, rel=1e-14)


def test_adagrad_has_epsilon_inside_the_root() -> None:
    """x −= α g / √(v + ε), v the sum of squares, ε = 1e-6."""

    def one(x: float, a: float, b: float) -> float:
        x -= 0.1 * a / math.sqrt(a * a + 1e-6)
        return x - 0.1 * b / math.sqrt(a * a + b * b + 1e-6)

    assert walked("Adagrad", lr=0.1, eps=1e-6, eps_inside=True) == pytest.approx(both(one), rel=1e-14)
    assert walked("Adagrad", lr=0.1, eps=1e-6) != pytest.approx(both(one), rel=1e-8)


def test_rmsprop_has_epsilon_inside_the_root() -> None:
    """v = γv + (1−γ)g², x −= α g / √(v + ε)."""

    def one(x: float, a: float, b: float) -> float:
        v = 0.1 * a * a
        x -= 0.1 * a / math.sqrt(v + 1e-6)
        v = 0.9 * v + 0.1 * b * b
        return x - 0.1 * b / math.sqrt(v + 1e-6)

    options: dict[str, Any] = dict(lr=0.1, alpha=0.9, eps=1e-6)
    assert walked("RMSprop", **options, eps_inside=True) == pytest.approx(both(one), rel=1e-14)
    assert walked("RMSprop", **options) != pytest.approx(both(one), rel=1e-8)


def test_adadelta_has_two_constants_and_no_rate() -> None:
    """v = γv + (1−γ)g²; g̃ = √(Δ+ε)/√(v+ε)·g; x −= g̃; Δ = ρΔ + (1−ρ)g̃²."""

    def one(x: float, a: float, b: float) -> float:
        v = 0.2 * a * a
        step = math.sqrt(1e-6) / math.sqrt(v + 1e-6) * a
        x, mean = x - step, 0.1 * step * step
        v = 0.8 * v + 0.2 * b * b
        return x - math.sqrt(mean + 1e-6) / math.sqrt(v + 1e-6) * b

    assert walked("Adadelta", gamma=0.8, rho=0.9) == pytest.approx(both(one), rel=1e-14)
    assert walked("Adadelta", rho=0.9) != pytest.approx(both(one), rel=1e-8)


def test_adam_has_bias_correction_and_epsilon_outside() -> None:
    def one(x: float, a: float, b: float) -> float:
        m, v = 0.1 * a, 0.001 * a * a
        x -= 0.1 * (m / 0.1) / (math.sqrt(v / 0.001) + 1e-8)
        m, v = 0.9 * m + 0.1 * b, 0.999 * v + 0.001 * b * b
        return x - 0.1 * (m / (1 - 0.9**2)) / (math.sqrt(v / (1 - 0.999**2)) + 1e-8)

    assert walked("Adam", lr=0.1) == pytest.approx(both(one), rel=1e-13)


def test_amsgrad_never_divides_by_less() -> None:
    """The second gradient is chosen so that v falls: β₂ = 0.5."""
    p = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    optimizer = fallline.AMSGrad([p], lr=0.1, betas=(0.0, 0.5), eps=0.0)
    for gradient in (2.0, 1.0):
        p.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    # v: 2, then 1.5; the largest stays 2, corrected by 1 − 0.5² = 0.75.
    expected = 1.0 - 0.1 * 2.0 / math.sqrt(2.0 / 0.5) - 0.1 * 1.0 / math.sqrt(2.0 / 0.75)
    assert p.item() == pytest.approx(expected, rel=1e-14)
    assert optimizer.state[p]["max_exp_avg_sq"].item() == 2.0
    assert optimizer.state[p]["exp_avg_sq"].item() == 1.5


def adam_step(x: float, gradients: list[float]) -> float:
    m = v = 0.0
    for g in gradients:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    t = len(gradients)
    return (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)


def test_adamw_takes_step_and_decay_from_the_same_weights() -> None:
    """x −= α(m̂/(√v̂+ε) + λx): the lecture adds both at once, torch decays first; it is the same."""

    def one(x: float, a: float, b: float) -> float:
        x -= 0.1 * (adam_step(x, [a]) + 0.5 * x)
        return x - 0.1 * (adam_step(x, [a, b]) + 0.5 * x)

    assert walked("AdamW", lr=0.1, weight_decay=0.5) == pytest.approx(both(one), rel=1e-13)


def test_l2_in_adam_enters_the_gradient() -> None:
    """g + λx, which is the gradient of λ/2·‖x‖², not of λ‖x‖²."""

    def one(x: float, a: float, b: float) -> float:
        first = a + 0.5 * x
        x -= 0.1 * adam_step(x, [first])
        return x - 0.1 * adam_step(x, [first, b + 0.5 * x])

    assert walked("Adam", lr=0.1, weight_decay=0.5) == pytest.approx(both(one), rel=1e-13)


# ---------------------------------------------------------------------------- finite sums


class FiniteSum:
    """(1/n) Σ f_i(x) with f_i = (a_i·x − b_i)²/2; counts the gradients of single f_i."""

    def __init__(self, n: int, d: int = 3):
        random = torch.Generator().manual_seed(0)
        self.a = torch.randn(n, d, generator=random, dtype=torch.float64)
        self.b = torch.randn(n, generator=random, dtype=torch.float64)
        self.evaluated = 0

    def gradient(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        a, b = (self.a, self.b) if index is None else (self.a[index], self.b[index])
        self.evaluated += len(b)
        return a.t() @ (a @ x.detach() - b) / len(b)

    def loss(self, x: Tensor) -> Tensor:
        self.evaluated += len(self.b)
        return (self.a @ x - self.b).square().mean() / 2

    @property
    def solution(self) -> Tensor:
        return torch.linalg.lstsq(self.a, self.b[:, None]).solution[:, 0]


def test_gradient_of_a_uniform_index_is_unbiased() -> None:
    """E[∇f_i] = ∇f, and so the mean of SGD's steps over all indices is GD's step."""
    problem = FiniteSum(50)
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    ends = []
    for index in [None, *torch.arange(50)[:, None]]:
        x = start.clone().requires_grad_()
        optimizer = fallline.SGD([x], lr=0.1)
        x.grad = problem.gradient(x, index)
        optimizer.step()
        ends.append(x.detach())
    torch.testing.assert_close(torch.stack(ends[1:]).mean(0), ends[0], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(ends[1], ends[0])


@pytest.mark.parametrize("n", [20, 200])
def test_a_step_of_gradient_descent_costs_n_gradients(n: int) -> None:
    problem = FiniteSum(n)
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    descent = fallline.SGD([x], lr=0.1)
    for _ in range(10):
        x.grad = problem.gradient(x)
        descent.step()
    assert problem.evaluated == 10 * n
    stochastic = FiniteSum(n)
    for i in range(10):
        x.grad = stochastic.gradient(x, torch.tensor([i]))
        descent.step()
    assert stochastic.evaluated == 10


def test_a_constant_rate_has_a_limit_and_a_line_search_has_none() -> None:
    """GD converges below 2/L and diverges above; searched along the line it needs no rate."""
    problem = FiniteSum(40)
    smoothness = float(torch.linalg.eigvalsh(problem.a.t() @ problem.a / 40).max())

    def distance(factor: float) -> float:
        x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        optimizer = fallline.SGD([x], lr=factor / smoothness)
        for _ in range(100):
            x.grad = problem.gradient(x)
            optimizer.step()
        return float((x.detach() - problem.solution).norm())

    assert distance(1.9) < 1e-3
    assert distance(2.1) > 1e2
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    search = fallline.LineSearchGD([x], lr=1000.0)

    def closure() -> Tensor:
        search.zero_grad()
        loss = problem.loss(x)
        loss.backward()
        return loss

    for _ in range(100):
        search.step(closure)
    assert float((x.detach() - problem.solution).norm()) < 1e-3
    assert search.evaluations > 200, "its price: several evaluations per step"


# ---------------------------------------------------------------------------- full-matrix AdaGrad


def test_full_matrix_adagrad_does_not_care_how_the_axes_are_turned() -> None:
    """The diagonal does: it is what the full matrix is approximated by."""
    random = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=random, dtype=torch.float64)).Q
    gradients = torch.randn(10, 4, generator=random, dtype=torch.float64)

    def walk(kind: Any, rotation: Tensor) -> Tensor:
        x = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = kind([x], lr=0.1)
        for g in gradients:
            x.grad = rotation @ g
            optimizer.step()
        return rotation.t() @ x.detach()

    plain = torch.eye(4, dtype=torch.float64)
    full = fallline.FullMatrixAdagrad
    torch.testing.assert_close(walk(full, turn), walk(full, plain), rtol=1e-9, atol=1e-10)
    assert not torch.allclose(walk(fallline.Adagrad, turn), walk(fallline.Adagrad, plain), rtol=1e-2)


def test_full_matrix_adagrad_on_separate_axes_is_the_diagonal_one() -> None:
    """With gradients along one axis at a time the matrix has no other entries."""
    ends = []
    for kind, options in ((fallline.FullMatrixAdagrad, {}), (fallline.Adagrad, {"eps_inside": True})):
        x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        optimizer = kind([x], lr=0.1, eps=1e-6, **options)
        for t in range(9):
            x.grad = torch.zeros(3, dtype=torch.float64)
            x.grad[t % 3] = 1.0 + t
            optimizer.step()
        ends.append(x.detach())
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-10)
