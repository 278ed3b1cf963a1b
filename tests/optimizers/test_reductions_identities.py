"""Where one optimizer is another, under the exact conditions."""

from typing import Any

import pytest
import torch

import fallline

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [(7, 5), (3, 4, 5), (6,), ()]


def parameters(size: float = 1.0) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [(size * torch.randn(shape, dtype=torch.float64)).requires_grad_() for shape in SHAPES]


def run(optimizer: Any, params: list[torch.Tensor], steps: int = 30) -> None:
    torch.manual_seed(1)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, dtype=p.dtype) + 0.1 * p.detach()
        optimizer.step()


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgdp_without_projection_and_decay_is_sgd(momentum: float, nesterov: bool) -> None:
    """δ = 0 projects nothing.  Without dampening: the first buffer of torch's SGD is not dampened, SGDP's is."""
    if nesterov and momentum == 0.0:
        pytest.skip("SGD has no look-ahead without momentum")
    ours, theirs = parameters(), parameters()
    run(fallline.SGDP(ours, lr=0.01, momentum=momentum, nesterov=nesterov, delta=0.0), ours)
    run(fallline.SGD(theirs, lr=0.01, momentum=momentum, nesterov=nesterov), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-14, atol=1e-15)


def test_sgdp_of_vectors_is_sgd_whatever_delta_is() -> None:
    ours, theirs = parameters()[2:], parameters()[2:]
    run(fallline.SGDP(ours, lr=0.01, momentum=0.9, delta=10.0), ours)
    run(fallline.SGD(theirs, lr=0.01, momentum=0.9), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("nesterov", [False, True])
def test_adamp_without_projection_is_adamw(nesterov: bool) -> None:
    ours, theirs = parameters(), parameters()
    run(fallline.AdamP(ours, lr=0.01, weight_decay=0.1, delta=0.0, nesterov=nesterov), ours)
    other = fallline.NAdamW if nesterov else fallline.AdamW
    run(other(theirs, lr=0.01, weight_decay=0.1), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_lamb_without_decay_has_the_ratio_1_and_is_adam() -> None:
    ours, theirs = parameters(), parameters()
    run(fallline.LAMB(ours, lr=0.01, eps=1e-8, weight_decay=0.0, max_grad_norm=None), ours)
    run(fallline.Adam(theirs, lr=0.01), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("decoupled", [False, True])
def test_lamb_with_clipped_ratios_of_large_weights_is_adamw(decoupled: bool) -> None:
    """trust_clip makes the ratio 1 wherever the weights are longer than the direction, as these are."""
    ours, theirs = parameters(1e3), parameters(1e3)
    options = dict(lr=0.01, eps=1e-8, weight_decay=0.1)
    lamb = fallline.LAMB(ours, **options, max_grad_norm=None, trust_clip=True, decoupled_decay=decoupled)
    run(lamb, ours)
    run(fallline.AdamW(theirs, **options), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decouple", [False, True])
def test_prodigy_with_a_fixed_d_is_adam(decouple: bool) -> None:
    """d stays at d0 if its estimate counts for nothing; with bias correction and ε = 0, d cancels but for the rate."""
    d0, lr = 0.01, 0.7
    ours, theirs = parameters(), parameters()
    prodigy = fallline.Prodigy(
        ours, lr=lr, d0=d0, d_coef=1e-300, use_bias_correction=True, eps=0.0, decouple=decouple, weight_decay=0.0
    )
    run(prodigy, ours)
    assert prodigy.param_groups[0]["d"] == d0
    run(fallline.Adam(theirs, lr=d0 * lr, eps=0.0), theirs)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-13)


def test_the_forms_of_adafactor_differ() -> None:
    ours, theirs = parameters(), parameters()
    # Without decay they differ by their tiny eps alone; torch scales the decay by lr, the other by the step's size.
    run(fallline.Adafactor(ours, weight_decay=0.1), ours)
    run(fallline.Adafactor(theirs, variant="hf", weight_decay=0.1), theirs)
    assert all((p - q).abs().max() > 1e-6 for p, q in zip(ours[:2], theirs[:2], strict=True))


def test_fromage_moves_every_tensor_by_the_same_share() -> None:
    params = parameters()
    before = [p.detach().clone() for p in params]
    run(fallline.Fromage(params, lr=0.1), params, steps=1)
    for p, q in zip(params, before, strict=True):
        moved = (p.detach() * (1 + 0.1**2) ** 0.5 - q).norm() / q.norm()
        assert float(moved) == pytest.approx(0.1, rel=1e-12)


def test_lamb_moves_every_tensor_by_the_same_share() -> None:
    params = parameters()
    before = [p.detach().clone() for p in params]
    run(fallline.LAMB(params, lr=0.1), params, steps=1)
    for p, q in zip(params, before, strict=True):
        assert float((p.detach() - q).norm() / q.norm()) == pytest.approx(0.1, rel=1e-12)
