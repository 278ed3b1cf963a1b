"""Products by oneDNN and by torch's BLAS are the same, whatever the layout of their operands."""

import pytest
import torch

from fallline.matrix import products
from fallline.matrix.newton_schulz import newton_schulz
from fallline.matrix.zolotarev import polar_factor


@pytest.fixture(params=[False, True], ids=["blas", "onednn"])
def onednn(request, monkeypatch):
    if request.param and not products._works():
        pytest.skip("this torch has no oneDNN product")
    monkeypatch.setattr(products, "uses_onednn", lambda: request.param)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def layouts(rows, cols):
    whole = random(cols + 5, rows + 3)
    return [random(rows, cols), random(cols, rows).T, whole[:cols, :rows].T, whole.T[:rows, :cols].contiguous()]


def test_products_of_every_layout(onednn):
    for left in layouts(130, 100):
        for right in layouts(100, 120):
            found = products.product(left, right)
            torch.testing.assert_close(found.double(), left.double() @ right.double(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [100, 500])
def test_halves_of_symmetric_products(onednn, rows):
    x = random(rows, 120) / 120**0.5
    gram = products.symmetric_product(x, x, torch.empty(rows, rows))
    torch.testing.assert_close(gram, x @ x.T, rtol=1e-4, atol=1e-5)
    assert torch.equal(gram, gram.T)
    identity = torch.eye(rows)
    found = products.symmetric_polynomial(0.3, -0.5, 0.2, gram, torch.empty_like(gram))
    torch.testing.assert_close(found, 0.3 * identity - 0.5 * gram + 0.2 * gram @ gram, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 100, 140), (2, 140, 100), (1, 400, 600), (2, 97, 97)], ids=str)
def test_orthogonalisation_does_not_depend_on_whose_products_it_uses(onednn, shape):
    x = random(*shape)
    for function in (lambda x: newton_schulz(x, dtype=x.dtype), polar_factor):
        torch.testing.assert_close(function(x).double(), function(x.double()), rtol=1e-3, atol=1e-3)
