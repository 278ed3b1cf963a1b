"""The value of a code, its error, and that a state which does not change stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from fallline.formats import FORMATS, BlockFormat
from tests.formats import bits
from tests.formats.blocks import (
    LARGEST,
    LARGEST_SCALE,
    LEAST,
    SIZES,
    Floats,
    any_codes,
    any_scales,
    any_values,
    byte_codes,
    each_format,
    every_code,
    once,
    same,
    sample,
    stored,
)
from tests.formats.levels import degree, dither, level, share, straight_exp2


def test_level_and_share_are_inverse_and_close_to_the_root() -> None:
    for form in FORMATS.values():
        ratio = torch.logspace(-12, 0, 1001, dtype=torch.float64)
        assert torch.allclose(share(form, level(form, ratio)), ratio, rtol=1e-12)
        assert torch.allclose(level(form, ratio), form.levels * ratio ** (1 / degree(form)), rtol=0.09)
        assert level(form, torch.ones(1)).item() == form.levels


@each_format
def test_codes_stand_for_what_the_definition_says(form: BlockFormat) -> None:
    codes = every_code(form)
    values = form._decode_blocks(codes.to(form._byte_dtype).unsqueeze(0), torch.ones(1, 1))[0]
    expected = share(form, codes.abs()) * codes.sign()
    assert torch.equal(values.double(), expected), "shifts lose nothing"


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_error_is_below_a_level(form: BlockFormat, numel: int) -> None:
    """The slack is for float32: relative 3e-7, of a level up to 254 and of the result."""
    one = 1 + 1e-4
    for seed in range(5):
        x = sample(form, numel, seed)
        codes, scale = form.encode(x)
        y = form.decode(codes, scale, x.shape).double()
        per_element = scale.double().repeat_interleave(form.block)[:numel]
        exact = level(form, x.double().abs() / per_element)
        lowest = share(form, (exact - one).clamp_min(0)) * per_element
        highest = share(form, (exact + one)) * per_element
        assert (y.abs() >= lowest * (1 - 3e-7)).all()
        assert (y.abs() <= highest * (1 + 3e-7)).all()
        assert ((y == 0) | (y.sign() == x.sign())).all()


@each_format
def test_relative_error(form: BlockFormat) -> None:
    """From the level 2^e on, a level moves the straight logarithm by 2^-e, that of its power by as many times as
    much as its degree, and so the value by a factor of at most its exponential: of int8 by 3.2 % in the top octave,
    which reaches down to 1/15 (nonneg) or 0.26 (signed) of the scale."""
    ratio = torch.logspace(-12, 0, 40 * form.block, dtype=torch.float64).view(form.block, 40).T.flip(1)
    x = ratio.float()
    x[:, -1] = 1.0
    y = once(form, x).double()
    octave = torch.minimum(level(form, x), level(form, y)).clamp_min(1).log2().floor()
    off, inside = torch.maximum(x / y, y / x), level(form, x) >= 1
    assert (off <= straight_exp2(degree(form) * 2**-octave) * (1 + 1e-4))[inside].all()
    if form.name == "int8":
        assert off[x > (0.26 if form.kind == "signed" else 1 / 15)].max() <= 1 + 1 / 32 + 1e-5


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_scale_is_the_largest_magnitude_of_its_block_and_exact(form: BlockFormat, numel: int) -> None:
    x = sample(form, numel)
    codes, scale = form.encode(x)
    assert scale.tolist() == [block.abs().max() for block in x.split(form.block)]
    y = form.decode(codes, scale, x.shape)
    for before, after in zip(x.split(form.block), y.split(form.block), strict=True):
        top = before.abs().argmax()
        assert after[top].sign() == before[top].sign()
        assert after[top].abs() == before[top].abs()


@each_format
@pytest.mark.parametrize("exponent", [-127, -120, -112, 0, 127])
def test_the_largest_level_is_every_scale_of_an_octave(form: BlockFormat, exponent: int) -> None:
    first = (exponent + 127) << 23
    last = min(first + (1 << 23), int(bits(torch.tensor(LARGEST))))
    scale = torch.arange(first, last, dtype=torch.int32).view(torch.float32).unsqueeze(1)
    codes = torch.full_like(scale, form.levels, dtype=form._byte_dtype)
    assert torch.equal(form._decode_blocks(codes, scale), scale)


LEAST_WITH_ALL_CODES = {
    ("int8", "signed"): 2.0**-134,
    ("int4", "signed"): 2.0**-142,
    ("int8", "nonneg"): 2.0**-117,
    ("int4", "nonneg"): 2.0**-134,
}


@each_format
def test_decoded_values_encode_to_the_same_codes(form: BlockFormat) -> None:
    scale = any_scales(LEAST_WITH_ALL_CODES[form.name, form.kind], LARGEST_SCALE, 4000)
    codes = any_codes(form, len(scale))
    kept = stored(form, codes)
    x = form.decode(kept, scale, codes.shape)
    again, scale_again = form.encode(x)
    assert torch.equal(again, kept)
    assert torch.equal(bits(form.decode(again, scale_again, codes.shape)), bits(x))


@each_format
def test_a_state_that_does_not_change_does_not_drift(form: BlockFormat) -> None:
    for seed in range(20):
        x = sample(form, 3 * form.block + 77, seed)
        y = z = once(form, x)
        for _ in range(5):  # the same bits once are the same bits for ever
            z = once(form, z)
            assert torch.equal(bits(z), bits(y))


@each_format
@pytest.mark.parametrize("scale", [LEAST, 5 * LEAST, 1e-40, 2.0**-126, 1e-20, 1.0, 1e20, LARGEST_SCALE])
def test_any_scale_gives_the_same_codes_as_in_exact_arithmetic(form: BlockFormat, scale: float) -> None:
    fractions = torch.linspace(0, 1, form.block, dtype=torch.float64) ** 3
    x = (fractions * scale).to(torch.float32)
    codes, kept = form.encode(x)
    assert kept.item() == torch.tensor(scale, dtype=torch.float32).item()
    exact = level(form, x.double() / kept.double()) + dither(kept, len(x))[0]
    clear = (exact - exact.floor() - 0.5).abs() > 1e-3
    expected = exact.round().clamp_min(0)
    if form.kind == "nonneg":
        expected = torch.maximum(expected, (x > 0).double())
    assert clear.sum() > form.block * 0.9
    assert torch.equal(byte_codes(form, codes, len(x))[clear], expected[clear].to(form._byte_dtype))


@each_format
@settings(max_examples=150, deadline=None)
@given(values=any_values)
def test_any_floats_change_once_only(form: BlockFormat, values: Floats) -> None:
    x = torch.from_numpy(values)
    y = once(form, x)
    assert torch.equal(y.isnan(), ~x.isfinite())
    again = once(form, y)
    assert torch.allclose(again, y, rtol=0, atol=LEAST, equal_nan=True)
    assert same(once(form, again), again)


@each_format
def test_the_default_dtype_of_torch_changes_nothing(form: BlockFormat) -> None:
    x = sample(form, 2 * form.block + 3)
    codes, scale = form.encode(x)
    torch.set_default_dtype(torch.float64)
    try:
        again, its_scale = form.encode(x)
        decoded = form.decode(again, its_scale, x.shape)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(again, codes) and torch.equal(its_scale, scale)
    assert decoded.dtype == torch.float32 and torch.equal(decoded, form.decode(codes, scale, x.shape))
