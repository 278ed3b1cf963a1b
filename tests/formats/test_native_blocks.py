"""The native twin of low-bit blocks agrees bit for bit, on every instruction set."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fallline.formats import BlockFormat, block_format
from tests.formats import TARGETS, Native, bits, native_for
from tests.formats.blocks import (
    INF,
    LARGEST,
    LARGEST_SCALE,
    LEAST,
    MINUS_NAN,
    NAN,
    Floats,
    adversarial,
    any_scales,
    any_values,
    each_format,
    same,
    sample,
)


@pytest.fixture(scope="module", params=TARGETS)
def native(request: pytest.FixtureRequest) -> Native:
    return native_for(request.param)


GUARD = 64


def native_encode(native: Native, form: BlockFormat, x: Tensor) -> tuple[Tensor, Tensor]:
    """Into memory that is aligned to its elements only, and watched on both sides."""
    n, blocks = torch.Size(form.code_shape(x.shape)).numel(), form.scale_shape(x.shape)[0]
    codes = torch.full((n + 2 * GUARD + 1,), 0x55, dtype=form.code_dtype)
    scale = torch.full((blocks + 2 * GUARD + 1,), 7.0)
    inner, inner_scale = codes[GUARD + 1 : GUARD + 1 + n], scale[GUARD + 1 : GUARD + 1 + blocks]
    native.store(form.native, inner, x, scale=inner_scale)
    for part in (codes[: GUARD + 1], codes[GUARD + 1 + n :]):
        assert (part == 0x55).all(), "written beyond the codes"
    for part in (scale[: GUARD + 1], scale[GUARD + 1 + blocks :]):
        assert (part == 7.0).all(), "written beyond the scales"
    return inner, inner_scale


def assert_twins(native: Native, form: BlockFormat, x: Tensor) -> None:
    codes, scale = form.encode(x)
    native_codes, native_scale = native_encode(native, form, x)
    assert torch.equal(bits(native_scale), bits(scale))
    assert torch.equal(native_codes, codes)
    decoded = form.decode(codes, scale, x.shape)
    assert torch.equal(bits(native.load(form.native, native_codes, 0, x.numel(), native_scale)), bits(decoded))


@each_format
@pytest.mark.parametrize("first", [1, 100, 127, 128, 255, 256, 300, 1023])
def test_native_stores_and_loads_a_piece_alike(native: Native, form: BlockFormat, first: int) -> None:
    """Blocks follow the whole tensor, so those of a piece begin anywhere in it."""
    for numel in (1, 2, 77, form.block, 2 * form.block + 77):
        x = sample(form, numel)
        codes, scale = form.encode(x, first)
        native_codes, native_scale = torch.zeros_like(codes), torch.zeros_like(scale)
        native.store(form.native, native_codes, x, scale=native_scale, first=first)
        assert torch.equal(native_codes, codes) and torch.equal(native_scale, scale)
        loaded = native.load(form.native, codes, 0, numel, scale, first)
        assert torch.equal(bits(loaded), bits(form.decode(codes, scale, x.shape, first)))


@each_format
@pytest.mark.parametrize("case", adversarial(block_format("int8", "signed")))
def test_native_is_equal_bit_for_bit(native: Native, form: BlockFormat, case: str) -> None:
    x = adversarial(form)[case]
    assert_twins(native, form, x)
    assert_twins(native, form, x[1:])


@each_format
def test_native_is_equal_for_every_size(native: Native, form: BlockFormat) -> None:
    """Every rest of a vector, and of a block."""
    x = sample(form, 2 * form.block)
    for numel in range(1, len(x) + 1, 5):
        assert_twins(native, form, x[:numel])


@each_format
def test_native_is_equal_for_special_values_anywhere_in_a_block(native: Native, form: BlockFormat) -> None:
    special = torch.tensor([MINUS_NAN, INF, -1e30, LARGEST, -0.0, -INF, LEAST])
    x = sample(form, form.block).repeat(form.block, 1)
    x.diagonal().copy_(special.repeat(form.block)[: form.block])
    assert_twins(native, form, x.view(-1))
    for i in range(13):
        rest = x[0, 1:14].clone()
        rest[i] = special[i % 7]
        assert_twins(native, form, rest)


@each_format
def test_native_decodes_every_byte_with_every_scale(native: Native, form: BlockFormat) -> None:
    codes = torch.arange(256, dtype=torch.uint8).repeat(2).view(form.code_dtype)
    numel = codes.numel() * 8 // form.bits
    fixed = [0.0, LEAST, 33 * LEAST, 1e-38, 1e-20, 0.3, 1.0, 1e30, LARGEST_SCALE, LARGEST]
    for value in [*fixed, *any_scales(LEAST, LARGEST, 200).tolist()]:
        for signed in (value, -value):  # a negative scale: NaN codes count
            scale = torch.full(form.scale_shape((numel,)), signed)
            expected = form.decode(codes, scale, (numel,))
            assert torch.equal(bits(native.load(form.native, codes, 0, numel, scale)), bits(expected))


@each_format
@pytest.mark.parametrize("value", [NAN, MINUS_NAN, INF, -INF])
def test_native_decodes_with_spoilt_scales_alike(native: Native, form: BlockFormat, value: float) -> None:
    codes = torch.arange(256, dtype=torch.uint8).repeat(2).view(form.code_dtype)
    numel = codes.numel() * 8 // form.bits
    scale = torch.full(form.scale_shape((numel,)), value)
    # 0 * inf: the sign of that NaN is the processor's
    assert same(native.load(form.native, codes, 0, numel, scale), form.decode(codes, scale, (numel,)))


@each_format
def test_native_does_not_drift(native: Native, form: BlockFormat) -> None:
    x = sample(form, 2 * form.block + 77)
    codes, scale = native_encode(native, form, x)
    first = y = native.load(form.native, codes, 0, len(x), scale)
    for _ in range(1000):
        native.store(form.native, codes, y, scale=scale)
        y = native.load(form.native, codes, 0, len(x), scale)
    assert torch.equal(bits(y), bits(first))


@each_format
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_native_loads_any_range(native: Native, form: BlockFormat, data: st.DataObject) -> None:
    x = adversarial(form)["non-finite"]
    codes, scale = form.encode(x)
    start = data.draw(st.integers(0, len(x)))
    n = data.draw(st.integers(0, len(x) - start))
    expected = form.decode(codes, scale, x.shape)[start : start + n]
    assert torch.equal(bits(native.load(form.native, codes, start, n, scale)), bits(expected))


@each_format
def test_native_stores_parts_like_the_whole(native: Native, form: BlockFormat) -> None:
    x = adversarial(form)["signs"]
    codes, scale = native_encode(native, form, x)
    part_codes, part_scale = torch.zeros_like(codes), torch.zeros_like(scale)
    for start in range(0, len(x), 3 * form.block):
        native.store(form.native, part_codes, x[start : start + 3 * form.block], scale=part_scale, start=start)
    assert torch.equal(part_codes, codes) and torch.equal(part_scale, scale)


@each_format
@settings(max_examples=40, deadline=None)
@given(values=any_values)
def test_native_is_equal_for_any_floats(native: Native, form: BlockFormat, values: Floats) -> None:
    assert_twins(native, form, torch.from_numpy(values))
