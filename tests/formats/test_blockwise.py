"""Low-bit blocks keep what they promise, and the native twin agrees bit for bit."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from fallline.formats import FORMATS, MIN_ELEMENTS, BlockFormat, applies, block_format
from tests.formats import TARGETS, Native, bits, native_for
from tests.formats.levels import degree, level, share, straight_exp2

SIZES = [1, 2, 127, 128, 129, 255, 256, 257, 1000, 4097]
LARGEST = torch.finfo(torch.float32).max
LARGEST_SCALE = float(np.nextafter(np.float32(LARGEST), np.float32(0)))
LEAST = 2.0**-149  # the smallest subnormal
NAN, INF = float("nan"), float("inf")
MINUS_NAN = torch.tensor([-0x400000], dtype=torch.int32).view(torch.float32).item()  # x86 makes this one

Floats = npt.NDArray[np.float32]
any_values = hnp.arrays("float32", st.integers(1, 300), elements=st.floats(width=32))
each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=[" ".join(key) for key in FORMATS])
each_name = pytest.mark.parametrize("name", ["int8", "int4"])


@pytest.fixture(scope="module", params=TARGETS)
def native(request: pytest.FixtureRequest) -> Native:
    return native_for(request.param)


def test_level_and_share_are_inverse_and_close_to_the_root() -> None:
    for form in FORMATS.values():
        ratio = torch.logspace(-12, 0, 1001, dtype=torch.float64)
        assert torch.allclose(share(form, level(form, ratio)), ratio, rtol=1e-12)
        assert torch.allclose(level(form, ratio), form.levels * ratio ** (1 / degree(form)), rtol=0.09)
        assert level(form, torch.ones(1)).item() == form.levels


# ---- Data. ----


def byte_codes(form: BlockFormat, codes: Tensor, numel: int) -> Tensor:
    return codes.view(-1) if form.bits == 8 else form._unpack(codes, numel)


def sample(form: BlockFormat, numel: int, seed: int = 0) -> Tensor:
    """Moments as they occur: normal within a block, over some decades between elements and between blocks."""
    generator = torch.Generator().manual_seed(seed)
    decades = torch.randn(numel, generator=generator) + 3 * torch.randn(1, generator=generator)
    x = torch.randn(numel, generator=generator) * 10**decades
    return x if form.kind == "signed" else x.square()


def every_code(form: BlockFormat) -> Tensor:
    """Every code but NaN, in their order."""
    return torch.arange(-form.levels if form.kind == "signed" else 0, form.levels + 1)


def any_codes(form: BlockFormat, blocks: int, seed: int = 0) -> Tensor:
    """Blocks of codes, each with the largest level and, where they fit in, all others."""
    codes = every_code(form)
    chosen = torch.randint(0, len(codes), (blocks, form.block), generator=torch.Generator().manual_seed(seed))
    blocks_of_codes = codes[chosen]
    if len(codes) < form.block:
        blocks_of_codes[:, : len(codes)] = codes
    blocks_of_codes[:, -1] = form.levels
    return blocks_of_codes.view(-1)


def any_scales(low: float, high: float, count: int) -> Tensor:
    """Positive floats, evenly over the octaves."""
    edges = bits(torch.tensor([low, high])).tolist()
    generator = torch.Generator().manual_seed(2)
    inner = torch.randint(edges[0], edges[1] + 1, (count - 2,), generator=generator)
    return torch.cat((torch.tensor(edges), inner)).to(torch.int32).view(torch.float32)


def stored(form: BlockFormat, codes: Tensor) -> Tensor:
    """Codes given as integers, in the dtype and packing of the format."""
    codes = codes.to(torch.int8 if form.kind == "signed" else torch.uint8)
    if form.bits == 8:
        return codes
    halves = codes.view(torch.uint8) & 15
    return halves[0::2] | (halves[1::2] << 4)


def once(form: BlockFormat, x: Tensor) -> Tensor:
    return form.decode(*form.encode(x), x.shape)


def same(a: Tensor, b: Tensor) -> bool:
    """Equal, NaN to NaN; zeros may differ in sign."""
    return torch.equal(a.nan_to_num(0.5, INF, -INF), b.nan_to_num(0.5, INF, -INF))


def ulps(a: Tensor, b: Tensor) -> int:
    return int((bits(a.abs()).long() - bits(b.abs())).abs().max())


@functools.cache
def adversarial(form: BlockFormat) -> dict[str, Tensor]:
    """Data on which a careless implementation differs, one case per name."""
    generator = torch.Generator().manual_seed(1)
    n = 16 * form.block + 37
    any_bits = torch.randint(-(2**31), 2**31, (n,), generator=generator).to(torch.int32).view(torch.float32)
    finite = torch.where(any_bits.isfinite(), any_bits, 0.0)
    # On both sides of every decision between two codes, for scales that are and are not powers of two.
    limits = share(form, torch.arange(form.levels, dtype=torch.float64) + 0.5)
    edges = []
    for scale in (1.0, 3.7e-5, 0.7e38, 1.3e-37, 5e-42, 127.0, 0.1, LARGEST_SCALE, LARGEST):
        edge = (limits * scale).to(torch.float32)
        above, below = edge.nextafter(torch.tensor(INF)), edge.nextafter(torch.tensor(-INF))
        around = torch.cat((edge, above, below, -edge, -above, -below))
        # each block gets the scale
        around = around[: len(around) // (form.block - 1) * (form.block - 1)].view(-1, form.block - 1)
        edges.append(torch.cat((torch.full((len(around), 1), scale), around), dim=1).view(-1))
    with_nan = sample(form, n, 2)
    with_nan[torch.randint(0, n, (40,), generator=generator)] = NAN
    with_nan[5:9] = torch.tensor([INF, -INF, NAN, MINUS_NAN])
    with_nan[form.block : 2 * form.block] = NAN
    with_nan[2 * form.block : 3 * form.block] = MINUS_NAN
    with_nan[3 * form.block : 4 * form.block - 1] = 0.0
    with_nan[4 * form.block - 1] = INF
    zeros = torch.zeros(n)
    zeros[1::3] = -0.0
    zeros[form.block + 3] = LEAST
    mixed = sample(form, n, 3)
    mixed[::7] *= -1
    mixed[form.block : 2 * form.block] = -mixed[form.block : 2 * form.block].abs()
    subnormal = torch.randint(0, 9, (n,), generator=generator) * LEAST
    tiny = any_scales(LEAST, 1e-30, n)[torch.randperm(n, generator=generator)]
    tiny *= (10.0 ** -torch.arange(n // form.block + 1)).repeat_interleave(form.block)[:n]
    tiny[3 :: form.block * 2] = NAN
    huge = torch.rand(n, generator=generator) * LARGEST
    huge[:: form.block * 2] = LARGEST
    return {
        "any bits": any_bits,
        "any finite bits": finite,
        "decision limits": torch.cat(edges),
        "non-finite": with_nan,
        "zeros": zeros,
        "signs": mixed,
        "positive": sample(form, n, 4).abs(),
        "subnormal": subnormal,
        "tiny": tiny,
        "huge": huge,
    }


# ---- What the format promises. ----


@each_format
def test_codes_stand_for_what_the_definition_says(form: BlockFormat) -> None:
    codes = every_code(form)
    values = form._decode_blocks(codes.to(form._byte_dtype).unsqueeze(0), torch.ones(1, 1))[0]
    expected = share(form, codes.abs()) * codes.sign()
    assert torch.equal(values.double(), expected), "shifts lose nothing"


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_error_is_within_half_a_level(form: BlockFormat, numel: int) -> None:
    """A code lifted from 0 to 1 is off by less than 1. The slack is for float32: relative 3e-7, of a level up
    to 254 and of the result."""
    half = 0.5 + 1e-4
    for seed in range(5):
        x = sample(form, numel, seed)
        codes, scale = form.encode(x)
        y = form.decode(codes, scale, x.shape).double()
        per_element = scale.double().repeat_interleave(form.block)[:numel]
        exact = level(form, x.double().abs() / per_element)
        lowest = share(form, (exact - half).clamp_min(0)) * per_element
        highest = share(form, (exact + half).clamp_min(1 if form.kind == "nonneg" else 0)) * per_element
        assert (y.abs() >= lowest * (1 - 3e-7)).all()
        assert (y.abs() <= highest * (1 + 3e-7)).all()
        assert ((y == 0) | (y.sign() == x.sign())).all()


@each_format
def test_relative_error(form: BlockFormat) -> None:
    """From the level 2^e on, half a level moves the straight logarithm by 2^-e / 2, that of its power by as many
    times as much as its degree, and so the value by a factor of at most its exponential: of int8 by 1.6 % in the
    top octave, which reaches down to 1/15 (nonneg) or 0.26 (signed) of the scale."""
    ratio = torch.logspace(-12, 0, 40 * form.block, dtype=torch.float64).view(form.block, 40).T.flip(1)
    x = ratio.float()
    x[:, -1] = 1.0
    y = once(form, x).double()
    octave = torch.minimum(level(form, x), level(form, y)).clamp_min(1).log2().floor()
    off, inside = torch.maximum(x / y, y / x), level(form, x) >= 1
    assert (off <= straight_exp2(degree(form) / 2 * 2**-octave) * (1 + 1e-4))[inside].all()
    if form.name == "int8":
        assert off[x > (0.26 if form.kind == "signed" else 1 / 15)].max() <= 1 + 1 / 64 + 1e-5


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
    """Of the least scales, too, every code decodes to about what it should, in order and finite."""
    scale = torch.cat((torch.arange(40) * LEAST, any_scales(LEAST, 2.0**-100, 2000))).sort().values
    codes = every_code(form)
    values = form._decode_blocks(codes.to(form._byte_dtype).expand(len(scale), -1), scale.unsqueeze(1))
    assert values.isfinite().all()
    assert (values.diff(dim=1) >= 0).all(), "in the order of codes"
    assert (values.abs().diff(dim=0) >= 0).all(), "in the order of scales"
    exact = share(form, codes.abs()) * codes.sign() * scale.double().unsqueeze(1)
    assert ((values.double() - exact).abs() <= LEAST / 2 + exact.abs() * 2.0**-23).all()


@each_format
def test_a_state_that_does_not_change_does_not_drift(form: BlockFormat) -> None:
    for seed in range(20):
        x = sample(form, 3 * form.block + 77, seed)
        y = z = once(form, x)
        for _ in range(5):  # the same bits once are the same bits for ever
            z = once(form, z)
            assert torch.equal(bits(z), bits(y))


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


@each_format
@pytest.mark.parametrize("scale", [LEAST, 5 * LEAST, 1e-40, 2.0**-126, 1e-20, 1.0, 1e20, LARGEST_SCALE])
def test_any_scale_gives_the_same_codes_as_in_exact_arithmetic(form: BlockFormat, scale: float) -> None:
    fractions = torch.linspace(0, 1, form.block, dtype=torch.float64) ** 3
    x = (fractions * scale).to(torch.float32)
    codes, kept = form.encode(x)
    assert kept.item() == torch.tensor(scale, dtype=torch.float32).item()
    exact = level(form, x.double() / kept.double())
    clear = (exact - exact.floor() - 0.5).abs() > 1e-3
    expected = exact.round()
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


@each_format
def test_order_of_values_is_kept(form: BlockFormat) -> None:
    for seed in range(10):
        x = sample(form, form.block, seed).sort().values
        assert (once(form, x).diff() >= 0).all()


# ---- Layout. ----


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_shapes_and_dtypes(form: BlockFormat, numel: int) -> None:
    codes, scale = form.encode(sample(form, numel))
    assert codes.dtype == form.code_dtype and codes.is_contiguous()
    assert codes.shape == form.code_shape((numel,)) == ((numel,) if form.name == "int8" else ((numel + 1) // 2,))
    assert scale.dtype == torch.float32
    assert scale.shape == form.scale_shape((numel,)) == (-(-numel // form.block),)


@each_format
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7, 11, 13)])
def test_any_shape_comes_back(form: BlockFormat, shape: tuple[int, ...]) -> None:
    x = sample(form, 1001)[: torch.Size(shape).numel()].view(shape)
    codes, scale = form.encode(x)
    assert codes.shape == form.code_shape(shape)
    assert form.decode(codes, scale, shape).shape == shape


@each_format
def test_memory_layout_does_not_matter(form: BlockFormat) -> None:
    x = sample(form, 4 * 6 * 50).view(4, 6, 50)
    for view in (x.transpose(0, 2), x[:, ::2, 3:], x.expand(2, 4, 6, 50)):
        codes, scale = form.encode(view)
        plain_codes, plain_scale = form.encode(view.contiguous())
        assert torch.equal(codes, plain_codes) and torch.equal(scale, plain_scale)
        assert codes.is_contiguous()
        if form.bits == 8:
            assert torch.equal(form.decode(codes, scale, view.shape), form.decode(codes.clone(), scale, view.shape))


@each_format
def test_blocks_do_not_depend_on_each_other(form: BlockFormat) -> None:
    """So a shard that starts at a block's start has the codes of the whole."""
    x = sample(form, 5 * form.block + 3)
    codes, scale = form.encode(x)
    part_codes, part_scale = form.encode(x[2 * form.block :])
    assert torch.equal(part_codes, codes[2 * form.block * form.bits // 8 :])
    assert torch.equal(part_scale, scale[2:])


@each_format
@pytest.mark.parametrize("numel", [0, 100, 1024, 1025, 5000])
def test_long_tensors_are_done_in_pieces(form: BlockFormat, numel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = sample(form, numel)
    codes, scale = form.encode(x)
    y = form.decode(codes, scale, x.shape)
    monkeypatch.setattr("fallline.formats.blockwise._PIECE", 512)
    codes_in_pieces, scale_in_pieces = form.encode(x)
    assert torch.equal(codes_in_pieces, codes) and torch.equal(scale_in_pieces, scale)
    assert torch.equal(form.decode(codes, scale, x.shape), y)


@pytest.mark.parametrize("kind", ["signed", "nonneg"])
def test_int4_packs_the_first_code_low_and_pads_with_zero(kind: str) -> None:
    form = block_format("int4", kind)
    top, nan = form.levels, form.nan_code & 15
    x = share(form, torch.tensor([top, 1, 0, 0, top])).float()
    x[3] = NAN
    codes, _ = form.encode(x)
    assert codes.tolist() == [top | 1 << 4, 0 | nan << 4, top]


def test_input_is_left_alone_and_takes_no_gradient() -> None:
    x = torch.randn(300, requires_grad=True)
    before = x.detach().clone()
    for form in FORMATS.values():
        y = form.decode(*form.encode(x), x.shape)
        assert not y.requires_grad
    assert torch.equal(x.detach(), before)


# ---- Names and errors. ----


def test_small_tensors_stay_float32() -> None:
    assert MIN_ELEMENTS == 4096
    assert applies(4096) and not applies(4095)


def test_bytes_per_element() -> None:
    assert block_format("int8", "signed").bytes_per_element == 1 + 4 / 256
    assert block_format("int4", "nonneg").bytes_per_element == 0.5 + 4 / 128


def test_errors_name_what_is_wrong() -> None:
    int8 = block_format("int8", "signed")
    with pytest.raises(ValueError, match="no low-bit format 'int7' for 'signed'"):
        block_format("int7", "signed")
    with pytest.raises(TypeError, match=r"must be float32.*got torch.float64"):
        int8.encode(torch.zeros(3, dtype=torch.float64))
    codes, scale = int8.encode(torch.ones(300))
    with pytest.raises(ValueError, match=r"codes .* of shape \(301,\), got"):
        int8.decode(codes, scale, (301,))
    with pytest.raises(ValueError, match=r"codes .* must be torch.int8"):
        int8.decode(codes.view(torch.uint8), scale, (300,))
    with pytest.raises(ValueError, match=r"scale .* of shape \(2,\), got"):
        int8.decode(codes, scale[:1], (300,))


# ---- The native twin. ----

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
def test_native_has_the_same_blocks(native: Native, form: BlockFormat) -> None:
    assert native.library.block_of_(form.native) == form.block
    assert [native.library.block_of_(other) for other in range(3)] == [1, 1, 1]


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
