"""Inverse roots and eigenbases against eigenvalues in float64."""

import math

import pytest
import torch

from fallline.matrix.coupled_newton import coupled_newton, largest_eigenvalue
from fallline.matrix.eigenbasis import eigenvectors, power_step
from fallline.matrix.inverse_root import inverse_root, symmetric_eigen


def positive(size, smallest, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    values = torch.logspace(0, math.log10(smallest), size, dtype=torch.float64)
    return ((q * values) @ q.mT).to(dtype), values, q


def power_step_of_one(a, basis):
    turned, order = power_step(a.unsqueeze(0), basis.unsqueeze(0))
    return turned[0], order[0]


@pytest.mark.parametrize("exponent", [0.5, 0.25, 1 / 6])
def test_roots_are_those_of_the_eigenvalues(exponent):
    a, values, q = positive(20, 1e-4)
    root, good = inverse_root(a, exponent, 1e-6)
    torch.testing.assert_close(root, (q * (values + 1e-6).pow(-exponent)) @ q.mT, rtol=1e-8, atol=1e-8)
    assert bool(good)


def test_float32_roots_invert_to_the_precision_of_float32():
    a, _, _ = positive(64, 1e-3, dtype=torch.float32)
    root, _ = inverse_root(a, 0.25, 0.0)
    power = torch.linalg.matrix_power(root.double(), 4) @ a.double()
    assert float((power - torch.eye(64)).abs().max()) < 2e-2


@pytest.mark.parametrize("shape", [(24, 24), (40, 40), (24, 40), (40, 24)], ids=str)
def test_shampoo_of_one_gradient_is_its_orthogonal_factor(shape):
    """(GGᵀ)^(−1/4) G (GᵀG)^(−1/4) = UVᵀ; on a singular side the power is that of the nonzero eigenvalues."""
    g = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u, values, vh = torch.linalg.svd(g, full_matrices=False)

    def root(a):
        if len(a) == len(values):
            return inverse_root(a, 0.25, 0.0)[0]
        found, q = symmetric_eigen(a)
        found, q = found[-len(values) :], q[:, -len(values) :]
        return (q * found.pow(-0.25)) @ q.mT

    condition = float(values[0] / values[-1])
    assert float((root(g @ g.mT) @ g @ root(g.mT @ g) - u @ vh).abs().max()) <= 1e-13 * condition


def test_failures_are_told_and_do_not_spoil_the_batch():
    a = torch.stack([positive(6, 0.1, seed)[0] for seed in range(3)])
    a[1, 0, 0] = math.nan
    root, good = inverse_root(a, 0.5, 0.0)
    assert good.tolist() == [True, False, True]
    assert bool(root[0].isfinite().all())
    _, good = inverse_root(torch.zeros(1, 4, 4), 0.5, 0.0)
    assert good.tolist() == [False]  # 0^(−1/2)
    assert inverse_root(torch.zeros(0, 4, 4), 0.5, 0.0)[0].shape == (0, 4, 4)
    assert inverse_root(torch.zeros(2, 0, 0), 0.5, 0.0)[0].shape == (2, 0, 0)


def test_negative_eigenvalues_of_rounding_are_lifted():
    a = torch.diag(torch.tensor([1.0, 1e-3, -1e-8]))
    root, good = inverse_root(a, 0.5, 1e-6)
    assert bool(good)
    assert bool((torch.linalg.eigvalsh(root) > 0).all())


def test_eigenvectors_come_in_falling_order():
    a, values, _ = positive(12, 1e-3)
    q = eigenvectors(a)
    torch.testing.assert_close(q.mT @ a @ q, torch.diag(values), rtol=1e-9, atol=1e-12)
    assert torch.equal(eigenvectors(torch.full((3, 3), math.nan)), torch.eye(3).flip(-1))


def test_power_steps_converge_to_the_eigenvectors():
    a, _, exact = positive(8, 1e-4)
    basis = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    for _ in range(200):
        basis, _ = power_step_of_one(a, basis)
    assert float((basis.mT @ exact).abs().sub(torch.eye(8)).abs().max()) < 1e-6


def test_a_power_step_says_how_it_sorted():
    a = torch.diag(torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64))
    basis, order = power_step_of_one(a, torch.eye(3, dtype=torch.float64))
    assert order.tolist() == [1, 2, 0]
    torch.testing.assert_close(basis.abs(), torch.eye(3, dtype=torch.float64)[:, [1, 2, 0]])


@pytest.mark.parametrize("power", [2, 4])
def test_newtons_roots_are_those_of_the_eigenvalues(power):
    a = torch.stack([positive(20, 1e-3, seed)[0] for seed in range(3)])
    by_newton, good = inverse_root(a, 1 / power, 1e-6, relative=True, method="newton")
    by_eigenvalues, _ = inverse_root(a, 1 / power, 1e-6, relative=True)
    assert bool(good.all())
    torch.testing.assert_close(by_newton, by_eigenvalues, rtol=1e-4, atol=1e-4)


def test_newtons_failures_are_tried_in_float64_and_told():
    a = positive(30, 1e-9, dtype=torch.float32)[0]
    _, error = coupled_newton(a, 2, 1e-10)
    assert float(error) > 0.1
    root, good = inverse_root(a, 0.5, 1e-10, relative=True, method="newton")
    assert bool(good) and bool(root.isfinite().all())
    bad = torch.stack([a, torch.full_like(a, math.nan), torch.zeros_like(a)])
    root, good = inverse_root(bad, 0.5, 1e-6, relative=True, method="newton")
    assert good.tolist()[:2] == [True, False]
    assert bool(root[0].isfinite().all())
    with pytest.raises(ValueError, match="needs relative=True"):
        inverse_root(a, 0.3, 1e-6, relative=True, method="newton")


def test_the_largest_eigenvalue_is_found_by_power_iteration():
    a = torch.stack([positive(16, 1e-2, seed)[0] * scale for seed, scale in ((0, 1.0), (1, 1e-20), (2, 1e12))])
    torch.testing.assert_close(largest_eigenvalue(a), torch.linalg.eigvalsh(a)[:, -1], rtol=1e-3, atol=0)
    assert float(largest_eigenvalue(torch.zeros(4, 4))) == 0.0
