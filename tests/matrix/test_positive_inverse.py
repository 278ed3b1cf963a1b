"""Inverses of positive matrices, by halves where they are large."""

import pytest
import torch

from fallline.matrix.positive_inverse import positive_inverse
from fallline.matrix.zolotarev import polar_factor, zolotarev
from tests.matrix.test_orthogonal_factors import with_spectrum


@pytest.mark.parametrize("size", [5, 383, 384, 501])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-2)], ids=str)
def test_a_matrix_times_its_inverse_is_the_identity(size, dtype, tolerance):
    x = torch.randn(size, 2 * size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = (x @ x.T / size + 1e-3 * torch.eye(size)).to(dtype)
    inverse, good = positive_inverse(a)
    assert bool(good)
    torch.testing.assert_close(inverse, inverse.T, rtol=1e-3, atol=1e-3 if dtype == torch.float32 else 1e-9)
    assert float((inverse.double() @ a.double() - torch.eye(size)).abs().max()) < tolerance


def test_a_matrix_that_is_not_positive_is_told():
    a = torch.eye(400)
    assert bool(positive_inverse(a)[1])
    for place in (0, 399):
        bad = a.clone()
        bad[place, place] = -1.0
        assert not bool(positive_inverse(bad)[1])


def test_the_band_holds_for_large_matrices_of_every_spectrum():
    band = 1.02 * zolotarev(3, 1e-3).deviation
    for smallest in (2e-2, 1e-1):
        x, exact = with_spectrum(420, 500, smallest, dtype=torch.float32)
        found = polar_factor(x)
        assert float((torch.linalg.svdvals(found.double()) - 1).abs().max()) <= band
        assert float((found.double() - exact).norm() / exact.norm()) <= band
    rank_one = torch.outer(torch.linspace(1, 2, 400), torch.linspace(1, 3, 450))
    assert bool(polar_factor(rank_one).isfinite().all())
