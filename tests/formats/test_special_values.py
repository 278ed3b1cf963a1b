"""Zeros, the least and the largest numbers, NaN and infinities in low-bit blocks."""

from __future__ import annotations

import pytest
import torch

from fallline.formats import BlockFormat, block_format
from tests.formats import bits
from tests.formats.blocks import (
    INF,
    LARGEST,
    LARGEST_SCALE,
    LEAST,
    MINUS_NAN,
    NAN,
    SIZES,
    any_codes,
    any_scales,
    byte_codes,
    each_format,
    each_name,
    every_code,
    once,
    same,
    sample,
    stored,
    ulps,
)
from tests.formats.levels import share


@each_format
def test_the_least_scales_hardly_change_when_encoded_again(form: BlockFormat) -> None:
    """There codes merge, for lack of numbers to decode to, but the values stay, within the last bit."""
    scale = torch.cat((torch.arange(1, 1000) * LEAST, any_scales(LEAST, 2.0**-110, 1000)))
    codes = any_codes(form, len(scale))
    x = form.decode(stored(form, codes), scale, codes.shape)
    y = once(form, x)
    assert ((y - x).abs() <= LEAST).all()
    assert same(once(form, y), y)


@each_format
def test_underflow_is_gradual(form: BlockFormat) -> None:
    """With the least scales, too, every code decodes to about what it should, in order and finite."""
    scale = torch.cat((torch.arange(40) * LEAST, any_scales(LEAST, 2.0**-100, 2000))).sort().values
    codes = every_code(form)
    values = form._decode_blocks(codes.to(form._byte_dtype).expand(len(scale), -1), scale.unsqueeze(1))
    assert values.isfinite().all()
    assert (values.diff(dim=1) >= 0).all(), "in the order of codes"
    assert (values.abs().diff(dim=0) >= 0).all(), "in the order of scales"
    exact = share(form, codes.abs()) * codes.sign() * scale.double().unsqueeze(1)
    assert ((values.double() - exact).abs() <= LEAST / 2 + exact.abs() * 2.0**-23).all()


@each_format
@pytest.mark.parametrize("value", [NAN, MINUS_NAN, INF, -INF])
def test_non_finite_becomes_nan_in_its_own_element_only(form: BlockFormat, value: float) -> None:
    x = sample(form, 3 * form.block + 5)
    where = [0, 17, form.block + 1, len(x) - 1]  # in every block but one
    clean = x.clone()
    clean[where] = 0.0
    x[where] = value
    assert x[where].signbit().all() == (value is MINUS_NAN or value == -INF)
    codes, scale = form.encode(x)
    clean_codes, clean_scale = form.encode(clean)
    y, clean_y = form.decode(codes, scale, x.shape), form.decode(clean_codes, clean_scale, x.shape)
    assert torch.equal(scale, clean_scale * torch.tensor([-1.0, -1.0, 1.0, -1.0]))
    assert byte_codes(form, codes, len(x))[where].tolist() == [form.nan_code] * len(where)
    assert y[where].isnan().all()
    y[where] = 0.0
    assert torch.equal(y, clean_y)


@each_format
@pytest.mark.parametrize("value", [NAN, MINUS_NAN, INF, -INF])
@pytest.mark.parametrize("other", [0.0, -0.0, None])
def test_a_block_with_nothing_but_non_finite_has_scale_minus_zero(
    form: BlockFormat, value: float, other: float | None
) -> None:
    x = torch.full((5,), value)
    if other is not None:
        x[3] = other
    codes, scale = form.encode(x)
    assert scale.item() == 0.0 and scale.signbit().item()
    assert form.decode(codes, scale, (5,)).isnan().tolist() == (~x.isfinite()).tolist()


@each_format
def test_the_nan_code_counts_in_blocks_with_a_negative_scale_only(form: BlockFormat) -> None:
    codes = torch.full((2 * form.block,), form.nan_code)
    codes[1::2] = 3
    values = form.decode(stored(form, codes), torch.tensor([-2.0, 2.0]), codes.shape).view(2, -1)
    assert values[0, ::2].isnan().all()
    beyond = share(form, torch.tensor(form.levels + 1)) * (-2 if form.kind == "signed" else 2)
    assert torch.allclose(values[1, ::2].double(), beyond, rtol=3e-7)
    assert torch.equal(values[0, 1::2], values[1, 1::2]) and (values[0, 1::2] > 0).all()
    empty = form.decode(stored(form, codes), torch.tensor([-0.0, 0.0]), codes.shape).view(2, -1)
    assert empty[0, ::2].isnan().all() and not empty[0, 1::2].any() and not empty[1].any()


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_zeros_of_both_signs(form: BlockFormat, numel: int) -> None:
    x = torch.zeros(numel)
    x[::2] = -0.0
    codes, scale = form.encode(x)
    assert not codes.any() and not bits(scale).any()
    assert not bits(form.decode(codes, scale, x.shape)).any(), "decodes to +0"
    zero_codes, zero_scale = form.zeros(x.shape)
    assert torch.equal(codes, zero_codes) and codes.dtype == zero_codes.dtype
    assert torch.equal(scale, zero_scale) and scale.dtype == zero_scale.dtype


@each_format
@pytest.mark.parametrize("value", [2.0**-112, 1e-30, 1.0, 0.1, 3.4e38, LARGEST_SCALE])
def test_single_elements_are_exact(form: BlockFormat, value: float) -> None:
    for signed in [value] if form.kind == "nonneg" else [value, -value]:
        x = torch.tensor([signed])
        assert torch.equal(once(form, x), x)


@each_format
@pytest.mark.parametrize("multiple", [1, 2, 3, 1000, 2**23 - 1, 2**23])
def test_single_subnormal_elements(form: BlockFormat, multiple: int) -> None:
    x = torch.tensor([multiple * LEAST])
    assert torch.equal(once(form, x), x)


@each_format
def test_the_largest_floats_stay_finite(form: BlockFormat) -> None:
    x = torch.tensor([LARGEST, LARGEST_SCALE, LARGEST / 2, LARGEST / 1e4, 1.0, 0.0])
    x = torch.cat((x, -x)) if form.kind == "signed" else x
    for block in (x, x[1:], x[2:]):
        codes, scale = form.encode(block)
        assert scale.item() == min(block.abs().max().item(), LARGEST_SCALE)
        y = form.decode(codes, scale, block.shape)
        assert y.isfinite().all()
        top = block.abs().argmax()
        assert ulps(y[top], block[top]) <= 2
        assert same(once(form, y), y)


@each_name
def test_nonneg_never_rounds_to_zero(name: str) -> None:
    form = block_format(name, "nonneg")
    x = torch.tensor([1.0, 1e-20, 1e-38, LEAST, 0.0])
    codes, scale = form.encode(x)
    assert byte_codes(form, codes, 5).tolist() == [form.levels, 1, 1, 1, 0]
    assert (form.decode(codes, scale, (5,))[:4] > 0).all()
    x[0] = 3e-36
    assert (once(form, x)[:4] > 0).all()
    codes, scale = form.encode(torch.tensor([5 * LEAST, LEAST]))  # where it may decode to zero
    assert (byte_codes(form, codes, 2) > 0).all()


@each_name
def test_nonneg_takes_negative_values_for_zero(name: str) -> None:
    form = block_format(name, "nonneg")
    x = torch.tensor([-5.0, 1.0, -LEAST, -LARGEST, -0.0])
    codes, scale = form.encode(x)
    assert bits(form.decode(codes, scale, (5,))).tolist() == bits(torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])).tolist()
    assert scale.item() == 1.0
    codes, scale = form.encode(-x[:1].abs())
    assert not bits(scale).any() and not codes.any()


@each_name
def test_nonneg_tells_minus_nan_from_negative_values(name: str) -> None:
    form = block_format(name, "nonneg")
    x = torch.tensor([-5.0, MINUS_NAN, 1.0, -INF, -0.0, NAN])
    codes, scale = form.encode(x)
    assert scale.item() == -1.0
    y = form.decode(codes, scale, (6,))
    assert y.isnan().tolist() == [False, True, False, True, False, True]
    assert y[[0, 2, 4]].tolist() == [0.0, 1.0, 0.0]
