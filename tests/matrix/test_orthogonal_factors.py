"""Orthogonalisation against singular value decompositions in float64: each method within a band of its own."""

import math

import pytest
import torch
from torch.optim._muon import _zeropower_via_newtonschulz

from fallline.matrix.newton_schulz import KELLER_JORDAN, POLAR_EXPRESS, POLAR_EXPRESS_SAFETY, newton_schulz
from fallline.matrix.zolotarev import polar_factor, zolotarev

SHAPES = [(24, 24), (16, 40), (40, 16), (1, 9), (9, 1), (400, 450), (700, 400)]


def with_spectrum(rows, cols, smallest, seed=0, dtype=torch.float64):
    """A matrix with singular values from 1 down to ``smallest``."""
    generator = torch.Generator().manual_seed(seed)
    rank = min(rows, cols)
    u, _ = torch.linalg.qr(torch.randn(rows, rank, generator=generator, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(cols, rank, generator=generator, dtype=torch.float64))
    values = torch.logspace(0, math.log10(smallest), rank, dtype=torch.float64)
    return (u * values @ v.mT).to(dtype), u @ v.mT


def largest_deviation(found):
    return float((torch.linalg.svdvals(found.double()) - 1).abs().max())


METHODS = {
    "newton_schulz": (lambda x: newton_schulz(x, dtype=x.dtype), 0.35),
    "gram": (lambda x: newton_schulz(x, dtype=x.dtype, form="gram"), 0.35),
    "polar_express": (
        lambda x: newton_schulz(
            x, coefficients=POLAR_EXPRESS, safety=POLAR_EXPRESS_SAFETY, eps_place="add", dtype=x.dtype
        ),
        0.16,
    ),
    "zolotarev": (polar_factor, 0.063),
    "zolotarev 4": (lambda x: polar_factor(x, degree=4), 0.0195),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_singular_values_end_in_the_band_of_the_method(method, shape, dtype):
    function, band = METHODS[method]
    x, exact = with_spectrum(*shape, 0.2, dtype=dtype)
    found = function(x)
    assert found.shape == x.shape
    assert found.dtype == dtype
    assert largest_deviation(found) <= band
    # The singular vectors are those of the matrix: UVᵀ and the result commute with nothing but their own basis.
    assert float((found.double() - exact).norm() / exact.norm()) <= band


def test_zolotarevs_coefficients_are_the_known_ones():
    three, four = zolotarev(3, 1e-3), zolotarev(4, 1e-3)
    assert three.scale == pytest.approx(0.753580826, rel=1e-8)
    assert three.residues == pytest.approx((0.00357603628, 0.035010177, 0.383982448), rel=1e-7)
    assert three.poles == pytest.approx((2.19700185e-6, 3.05334589e-4, 0.0355927506), rel=1e-7)
    assert three.deviation == pytest.approx(0.0621, abs=1e-4)
    assert four.deviation == pytest.approx(0.0189, abs=1e-4)


def test_zolotarevs_function_is_bounded_by_its_deviation():
    chosen = zolotarev(5, 3e-4)
    x = torch.logspace(math.log10(3e-4), 0, 5001, dtype=torch.float64)
    y = chosen.scale * x * (1 + sum(a / (x * x + c) for a, c in zip(chosen.residues, chosen.poles, strict=True)))
    assert float((y - 1).abs().max()) == pytest.approx(chosen.deviation, rel=1e-3)


@pytest.mark.parametrize("degree", [3, 4])
def test_small_singular_values_keep_the_promise(degree):
    x, _ = with_spectrum(48, 64, 2e-3)
    assert largest_deviation(polar_factor(x, degree=degree)) <= 1.01 * zolotarev(degree, 1e-3).deviation


def test_bfloat16_is_torchs_to_its_rounding():
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(1))
    ours = newton_schulz(x, dtype=torch.bfloat16)
    theirs = _zeropower_via_newtonschulz(x, (3.4445, -4.7750, 2.0315), 5, 1e-7)
    torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("coefficients", [KELLER_JORDAN, POLAR_EXPRESS], ids=["keller_jordan", "polar_express"])
@pytest.mark.parametrize("shape", [(64, 128), (400, 1000)], ids=str)
def test_bfloat16_holds_small_singular_values_as_well_as_its_rounding_allows(shape, coefficients):
    x, _ = with_spectrum(*shape, 1 / min(shape))
    exact = newton_schulz(x.double(), coefficients=coefficients, dtype=torch.float64)
    found = newton_schulz(x, coefficients=coefficients, dtype=torch.bfloat16).double()
    assert float((found - exact).norm() / exact.norm()) <= 0.1


@pytest.mark.parametrize("shape", [(64, 96), (96, 64), (50, 50), (400, 1000)], ids=str)
def test_every_form_is_the_same_polynomial(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    u, values, vh = torch.linalg.svd(x / x.norm(), full_matrices=False)
    for _ in range(5):
        ((a, b, c),) = KELLER_JORDAN
        values = a * values + b * values**3 + c * values**5
    expected = u * values @ vh
    for form in ("loop", "gram"):
        found = newton_schulz(x, dtype=torch.float64, form=form)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(3, 20, 30), (2, 2, 30, 20), (2, 400, 410)], ids=str)
def test_a_batch_is_its_matrices(method, shape):
    function, _ = METHODS[method]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    one_by_one = torch.stack([function(m) for m in x.reshape(-1, *shape[-2:])]).view(shape)
    torch.testing.assert_close(function(x), one_by_one, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("method", METHODS)
def test_odd_matrices_have_defined_results(method):
    function, _ = METHODS[method]
    assert torch.equal(function(torch.zeros(4, 6)), torch.zeros(4, 6))
    assert function(torch.zeros(0, 6)).shape == (0, 6)
    assert function(torch.zeros(3, 0, 6)).shape == (3, 0, 6)
    assert bool(function(torch.full((4, 6), math.nan)).isnan().any())
    one = function(torch.outer(torch.arange(1.0, 5.0), torch.arange(1.0, 7.0)))
    assert float(torch.linalg.svdvals(one.double())[0]) == pytest.approx(1.0, abs=0.36)
    assert bool(function(torch.randn(100_000, 2)).isfinite().all())
    x = torch.randn(8, 12, generator=torch.Generator().manual_seed(4))
    for size in (1e15, 1e-3):
        torch.testing.assert_close(function(x * size), function(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_size_of_a_matrix_does_not_matter_where_its_squares_overflow(method, dtype):
    if dtype == torch.bfloat16 and method not in ("newton_schulz", "polar_express"):
        pytest.skip("float32 only")
    function, _ = METHODS[method]
    x = torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(4), dtype=torch.float32).to(dtype)
    beside = torch.stack([x[0], x[1] * 2.0**100])
    found, wanted = function(beside), function(x)
    assert torch.equal(found[0], wanted[0])  # the one of ordinary size, bit for bit
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(found[1], wanted[1], rtol=tolerance, atol=tolerance)


def test_one_bad_matrix_does_not_spoil_its_batch():
    x = torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(5))
    good = polar_factor(x)
    x[1, 0, 0] = math.nan
    found = polar_factor(x)
    torch.testing.assert_close(found[[0, 2]], good[[0, 2]])
    assert bool(found[1].isnan().any())
