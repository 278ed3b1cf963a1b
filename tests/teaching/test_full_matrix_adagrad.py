"""Full-matrix AdaGrad against its definition, and what it is for."""

import copy
import math

import pytest
import torch

from fallline.teaching import FullMatrixAdagrad
from fallline.teaching.full_matrix_adagrad import preconditioned
from tests.contract.trajectories import assert_near, assert_same, parameters, run, set_gradients, values


def sqrtm(matrix, iterations=60):
    """The square root of a positive definite matrix by Denman and Beavers' iteration: no eigenvalues."""
    y, z = matrix, torch.eye(len(matrix), dtype=matrix.dtype)
    for _ in range(iterations):
        y, z = (y + torch.linalg.inv(z)) / 2, (z + torch.linalg.inv(y)) / 2
    return y


@pytest.mark.parametrize("variant", ["inside", "outside"])
def test_trajectory(variant):
    lr, eps = 0.1, 1e-2
    params = parameters((3, 2), (4,), dtype=torch.float64)
    thetas = [p.detach().clone().reshape(-1) for p in params]
    sums = [torch.zeros(len(t), len(t), dtype=torch.float64) for t in thetas]
    opt = FullMatrixAdagrad(params, lr=lr, eps=eps, variant=variant)
    for step in range(12):
        set_gradients(params, step)
        for i, p in enumerate(params):
            g = p.grad.reshape(-1)
            sums[i] = sums[i] + torch.outer(g, g)
            eye = torch.eye(len(g), dtype=torch.float64)
            if variant == "inside":
                root = sqrtm(sums[i] + eps * eye)
            else:
                # The root of a singular matrix needs a push, far below the precision compared.
                root = eps * eye + sqrtm(sums[i] + 1e-12 * eye)
            thetas[i] = thetas[i] - lr * torch.linalg.solve(root, g)
        opt.step()
    assert_near(
        [p.detach().reshape(-1) for p in params],
        thetas,
        rtol=1e-4 if variant == "outside" else 1e-9,
        atol=1e-9,
    )
    assert_near([opt.state[p]["sum"] for p in params], sums, rtol=1e-14, atol=1e-14)


def test_single_numbers_are_adagrad_with_eps_inside_the_root():
    params = parameters((), (1,), dtype=torch.float64)
    thetas, v = [p.item() for p in params], [0.0, 0.0]
    opt = FullMatrixAdagrad(params, lr=0.3, eps=1e-6)
    for step in range(10):
        set_gradients(params, step)
        for i, p in enumerate(params):
            g = p.grad.item()
            v[i] += g * g
            thetas[i] -= 0.3 * g / math.sqrt(v[i] + 1e-6)
        opt.step()
    assert [p.item() for p in params] == pytest.approx(thetas, rel=1e-12)


def test_turning_the_axes_turns_the_path():
    turn, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    straight = torch.nn.Parameter(torch.arange(1.0, 5.0, dtype=torch.float64))
    turned = torch.nn.Parameter((turn @ straight).detach())
    scales = torch.tensor([1.0, 3.0, 10.0, 30.0], dtype=torch.float64)
    for p, loss in ((straight, lambda x: x), (turned, lambda x: turn.T @ x)):
        opt = FullMatrixAdagrad([p], lr=0.5, eps=1e-4)
        for _ in range(10):
            opt.zero_grad()
            (scales * loss(p).square()).sum().backward()
            opt.step()
    assert_near(turned.detach(), turn @ straight.detach(), rtol=1e-8, atol=1e-10)


def test_eigenvalues_below_zero_by_rounding_count_as_zero():
    g = torch.tensor([1.0, 0.0], dtype=torch.float64)
    matrix = torch.diag(torch.tensor([1.0, -1e-3], dtype=torch.float64))
    for variant in ("inside", "outside"):
        assert preconditioned(matrix, g + 1, 1e-6, variant).isfinite().all()


def test_float32_keeps_its_dtype_and_layout():
    random = torch.Generator().manual_seed(0)
    p = torch.nn.Parameter(torch.randn(4, 3, generator=random).t())
    opt = FullMatrixAdagrad([p], lr=0.1)
    before = p.detach().clone()
    p.grad = torch.randn(3, 4, generator=random)
    opt.step()
    assert p.dtype == opt.state[p]["sum"].dtype == torch.float32
    # The first step has length α along the gradient, whatever the layout.  Eigenvectors in float32 turn
    # it a little; how much depends on the library.
    assert_near(before - p.detach(), 0.1 * p.grad / p.grad.norm(), rtol=0, atol=1e-5)


def test_closure_missing_gradients_and_checkpoint():
    a, b = parameters((3,), (2,))
    opt = FullMatrixAdagrad([a, b], lr=0.1)

    def closure():
        opt.zero_grad()
        loss = a.square().sum()
        loss.backward()
        return loss

    untouched = values([b])
    assert opt.step(closure).item() > 0
    assert_same(values([b]), untouched)
    twins = [torch.nn.Parameter(p.detach().clone()) for p in (a, b)]
    other = FullMatrixAdagrad(twins, lr=0.5)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    run(opt, 3)
    run(other, 3)
    assert_same(values(twins), values([a, b]))


def test_too_large_tensor_is_refused_by_name_and_number():
    message = (
        r"parameter 'w' has 1,050 entries, so its matrix would have 1,102,500; "
        r"FullMatrixAdagrad takes up to max_numel=1,024"
    )
    with pytest.raises(ValueError, match=message):
        FullMatrixAdagrad([("w", torch.nn.Parameter(torch.ones(30, 35)))])
    with pytest.raises(ValueError, match=r"parameter 1 of its group has 9 entries.* up to max_numel=8"):
        FullMatrixAdagrad([torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(9))], max_numel=8)
    opt = FullMatrixAdagrad([torch.nn.Parameter(torch.ones(32, 32))])
    with pytest.raises(ValueError, match="max_numel"):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.ones(2000))]})
    assert len(opt.param_groups) == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lr": -1}, ValueError, "lr must be >= 0, got -1"),
        ({"eps": 0}, ValueError, "eps must be > 0, got 0"),
        ({"variant": "duchi"}, ValueError, "variant must be 'inside' or 'outside', got 'duchi'"),
        ({"max_numel": 0}, ValueError, "max_numel must be > 0, got 0"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        FullMatrixAdagrad(parameters((3,)), **options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match=f"parameter 0 of its group has dtype {dtype}"):
        FullMatrixAdagrad(parameters((3,), dtype=dtype))


def test_sparse_gradient_is_refused():
    (p,) = parameters((3,))
    opt = FullMatrixAdagrad([p])
    p.grad = torch.ones(3).to_sparse()
    with pytest.raises(TypeError, match="parameter 0 of its group has a sparse gradient"):
        opt.step()
