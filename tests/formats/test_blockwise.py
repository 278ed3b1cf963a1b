"""Low-bit blocks keep what they promise, and the native twin agrees bit for bit."""

from __future__ import annotations

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

SIZES = [1, 2, 127, 128, 129, 255, 256, 257, 1000, 4097]
LARGEST = torch.finfo(torch.float32).max
LEAST = 2.0**-149  # the smallest subnormal
NAN, INF = float("nan"), float("inf")

Floats = npt.NDArray[np.float32]
any_values = hnp.arrays("float32", st.integers(1, 300), elements=st.floats(width=32))
each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=[" ".join(key) for key in FORMATS])


@pytest.fixture(scope="module", params=TARGETS)
def native(request: pytest.FixtureRequest) -> Native:
    return native_for(request.param)


def power(form: BlockFormat) -> int:
    return 2 if form.kind == "signed" else 4


def byte_codes(form: BlockFormat, codes: Tensor, numel: int) -> Tensor:
    return codes.view(-1) if form.bits == 8 else form._unpack(codes, numel)


def sample(form: BlockFormat, numel: int, seed: int = 0) -> Tensor:
    """Moments as they occur: normal within a block, over some decades between elements and between blocks."""
    generator = torch.Generator().manual_seed(seed)
    decades = torch.randn(numel, generator=generator) + 3 * torch.randn(1, generator=generator)
    x = torch.randn(numel, generator=generator) * 10**decades
    return x if form.kind == "signed" else x.square()


def all_codes(form: BlockFormat) -> Tensor:
    """Every code but NaN, in whole blocks that all have the largest level."""
    low = -form.levels if form.kind == "signed" else 0
    codes = torch.arange(low, form.levels + 1)
    rest = codes[: -len(codes) % form.block]
    while len(rest) < -len(codes) % form.block:
        rest = torch.cat((rest, codes))[: -len(codes) % form.block]
    codes = torch.cat((codes, rest)).view(-1, form.block)
    codes[:, 0] = form.levels
    return codes.view(-1)


def stored(form: BlockFormat, codes: Tensor) -> Tensor:
    """Codes given as integers, in the dtype and packing of the format."""
    codes = codes.to(torch.int8 if form.kind == "signed" else torch.uint8)
    if form.bits == 8:
        return codes
    halves = codes.view(torch.uint8) & 15
    return halves[0::2] | (halves[1::2] << 4)


def adversarial(form: BlockFormat) -> dict[str, Tensor]:
    """Data on which a careless implementation differs, one case per name."""
    generator = torch.Generator().manual_seed(1)
    n = 16 * form.block + 37
    any_bits = torch.randint(-(2**31), 2**31, (n,), generator=generator).to(torch.int32).view(torch.float32)
    finite = torch.where(any_bits.isfinite(), any_bits, 0.0)
    # On both sides of every decision between two codes, for scales that are and are not powers of two.
    levels = torch.arange(form.levels, dtype=torch.float64)
    limits = ((levels + 0.5) / form.levels) ** power(form)
    edges = []
    for scale in (1.0, 3.7e-5, 0.7e38, 1.3e-37, 5e-42, 127.0, 0.1):
        edge = (limits * scale).to(torch.float32)
        around = torch.stack(
            [edge, edge.nextafter(torch.tensor(INF)), edge.nextafter(torch.tensor(-INF))]
        ).view(-1)
        around = torch.cat((around, -around))
        # each block gets the scale
        around = around[: len(around) // (form.block - 1) * (form.block - 1)].view(-1, form.block - 1)
        edges.append(torch.cat((torch.full((len(around), 1), scale), around), dim=1).view(-1))
    with_nan = sample(form, n, 2)
    with_nan[torch.randint(0, n, (40,), generator=generator)] = NAN
    with_nan[5:9] = torch.tensor([INF, -INF, NAN, -NAN])
    with_nan[form.block : 2 * form.block] = NAN
    zeros = torch.zeros(n)
    zeros[1::3] = -0.0
    zeros[form.block + 3] = LEAST
    mixed = sample(form, n, 3)
    mixed[::7] *= -1
    return {
        "any bits": any_bits,
        "any finite bits": finite,
        "decision limits": torch.cat(edges),
        "non-finite": with_nan,
        "zeros": zeros,
        "signs": mixed,
        "positive": sample(form, n, 4).abs(),
        "subnormal": torch.randint(0, 9, (n,), generator=generator) * LEAST,
        "huge": torch.rand(n, generator=generator) * LARGEST,
    }


# ---- What the format promises. ----


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_error_is_within_half_a_level_of_the_root(form: BlockFormat, numel: int) -> None:
    """With u = K root(|x| / scale), |k - u| <= 1/2, so |k^p - u^p| <= (u + 1/2)^p - u^p; a code lifted from 0
    to 1 is off by less than 1. The slack is for float32: relative 3e-7 of u <= 254 and of the result."""
    half, p = 0.5 + 1e-4, power(form)
    for seed in range(5):
        x = sample(form, numel, seed)
        codes, scale = form.encode(x)
        y = form.decode(codes, scale, x.shape).double()
        per_element = scale.double().repeat_interleave(form.block)[:numel]
        root = form.levels * (x.double().abs() / per_element) ** (1 / p)
        bound = ((root + half) ** p - root**p).clamp_min(1.0 if form.kind == "nonneg" else 0.0)
        bound = bound / form.levels**p * per_element + 1e-6 * y.abs()
        assert ((y - x.double()).abs() <= bound).all()


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_scale_is_the_largest_magnitude_of_its_block_and_exact(form: BlockFormat, numel: int) -> None:
    x = sample(form, numel)
    codes, scale = form.encode(x)
    assert scale.tolist() == [block.abs().max() for block in x.split(form.block)]
    y = form.decode(codes, scale, x.shape)
    for before, after in zip(x.split(form.block), y.split(form.block), strict=True):
        assert after[before.abs().argmax()] == before[before.abs().argmax()]


@each_format
@pytest.mark.parametrize("scale", [1.0, 0.1, 3e-28, 7.3e-5, 1e10, 3.3e38, LARGEST])
def test_decoded_values_encode_to_the_same_codes(form: BlockFormat, scale: float) -> None:
    codes = all_codes(form)
    kept = stored(form, codes)
    scales = torch.full(form.scale_shape(codes.shape), scale)
    again, scales_again = form.encode(form.decode(kept, scales, codes.shape))
    assert torch.equal(again, kept)
    assert torch.equal(scales_again, scales)


@each_format
@pytest.mark.parametrize("multiple", [1, 2, 3, 7, 20, 99, 100, 101, 1000, 4095, 65537, 2**22 + 1])
def test_subnormal_blocks_hardly_change_when_encoded_again(form: BlockFormat, multiple: int) -> None:
    """There codes merge, for lack of numbers to decode to, but the values stay, within the last bit."""
    codes = all_codes(form)
    scales = torch.full(form.scale_shape(codes.shape), multiple * LEAST)
    x = form.decode(stored(form, codes), scales, codes.shape)
    again, scales_again = form.encode(x)
    assert torch.equal(scales_again, scales)
    assert ((form.decode(again, scales_again, x.shape) - x).abs() <= LEAST).all()


@each_format
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_non_finite_becomes_nan_in_its_own_element_only(form: BlockFormat, value: float) -> None:
    x = sample(form, 3 * form.block + 5)
    where = [0, 17, form.block + 1, len(x) - 1]
    clean = x.clone()
    clean[where] = 0.0
    x[where] = value
    codes, scale = form.encode(x)
    clean_codes, clean_scale = form.encode(clean)
    y, clean_y = form.decode(codes, scale, x.shape), form.decode(clean_codes, clean_scale, x.shape)
    assert torch.equal(scale, clean_scale)
    assert byte_codes(form, codes, len(x))[where].tolist() == [form.nan_code] * len(where)
    assert y[where].isnan().all()
    y[where] = 0.0
    assert torch.equal(y, clean_y)


@each_format
def test_a_block_of_nan_has_scale_zero(form: BlockFormat) -> None:
    codes, scale = form.encode(torch.full((5,), NAN))
    assert scale.tolist() == [0.0]
    assert form.decode(codes, scale, (5,)).isnan().all()


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_zeros_of_both_signs(form: BlockFormat, numel: int) -> None:
    x = torch.zeros(numel)
    x[::2] = -0.0
    codes, scale = form.encode(x)
    assert not codes.any() and not scale.any()
    assert not bits(form.decode(codes, scale, x.shape)).any(), "decodes to +0"
    zero_codes, zero_scale = form.zeros(x.shape)
    assert torch.equal(codes, zero_codes) and codes.dtype == zero_codes.dtype
    assert torch.equal(scale, zero_scale) and scale.dtype == zero_scale.dtype


@each_format
@pytest.mark.parametrize("value", [LEAST, 2.0**-126, 1e-40, 1e-30, 1.0, LARGEST])
def test_single_elements_are_exact(form: BlockFormat, value: float) -> None:
    for signed in [value] if form.kind == "nonneg" else [value, -value]:
        x = torch.tensor([signed])
        assert form.decode(*form.encode(x), (1,)).item() == x.item()


@each_format
@pytest.mark.parametrize("scale", [LEAST, 5 * LEAST, 1e-40, 2.0**-126, 1e-20, 1.0, 1e20, LARGEST])
def test_any_scale_gives_the_same_codes_as_in_exact_arithmetic(form: BlockFormat, scale: float) -> None:
    fractions = torch.linspace(0, 1, form.block, dtype=torch.float64) ** 3
    x = (fractions * scale).to(torch.float32)
    codes, kept = form.encode(x)
    assert kept.item() == torch.tensor(scale, dtype=torch.float32).item()
    root = form.levels * (x.double() / kept.double()) ** (1 / power(form))
    clear = (root - root.floor() - 0.5).abs() > 1e-3
    expected = root.round()
    if form.kind == "nonneg":
        expected = torch.maximum(expected, (x > 0).double())
    assert clear.sum() > form.block * 0.9
    assert torch.equal(byte_codes(form, codes, len(x))[clear], expected[clear].to(form._byte_dtype))


@each_format
@settings(max_examples=150, deadline=None)
@given(values=any_values)
def test_any_floats_change_once_only(form: BlockFormat, values: Floats) -> None:
    x = torch.from_numpy(values)
    y = form.decode(*form.encode(x), x.shape)
    assert torch.equal(y.isnan(), ~x.isfinite())
    again = form.decode(*form.encode(y), x.shape)
    assert torch.allclose(again, y, rtol=0, atol=LEAST, equal_nan=True)


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_nonneg_never_rounds_to_zero(name: str) -> None:
    form = block_format(name, "nonneg")
    x = torch.tensor([1.0, 1e-20, 1e-38, LEAST, 0.0])
    codes, scale = form.encode(x)
    assert byte_codes(form, codes, 5).tolist() == [form.levels, 1, 1, 1, 0]
    assert (form.decode(codes, scale, (5,))[:4] > 0).all()


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_nonneg_takes_negative_values_for_zero(name: str) -> None:
    form = block_format(name, "nonneg")
    x = torch.tensor([-5.0, 1.0, -LEAST, -LARGEST, -0.0])
    assert form.decode(*form.encode(x), (5,)).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    codes, scale = form.encode(-x[:1].abs())
    assert scale.item() == 0.0 and not codes.any()


@each_format
def test_order_of_values_is_kept(form: BlockFormat) -> None:
    x = sample(form, form.block).sort().values
    y = form.decode(*form.encode(x), x.shape)
    assert (y.diff() >= 0).all()


# ---- Layout. ----


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_shapes_and_dtypes(form: BlockFormat, numel: int) -> None:
    codes, scale = form.encode(sample(form, numel))
    assert codes.dtype == form.code_dtype and codes.is_contiguous()
    assert (
        codes.shape == form.code_shape((numel,)) == ((numel,) if form.name == "int8" else ((numel + 1) // 2,))
    )
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
            assert torch.equal(
                form.decode(codes, scale, view.shape), form.decode(codes.clone(), scale, view.shape)
            )


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
def test_long_tensors_are_done_in_pieces(
    form: BlockFormat, numel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    x = torch.tensor([form.levels, 1.0, 0.0, NAN, form.levels]) ** power(form)
    codes, _ = form.encode(x)
    top, nan = form.levels, form.nan_code & 15
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


def native_encode(native: Native, form: BlockFormat, x: Tensor) -> tuple[Tensor, Tensor]:
    codes = torch.full(form.code_shape(x.shape), 0x55, dtype=form.code_dtype)
    scale = torch.full(form.scale_shape(x.shape), 7.0)
    native.store(form.native, codes, x, scale=scale)
    return codes, scale


def assert_twins(native: Native, form: BlockFormat, x: Tensor) -> None:
    codes, scale = form.encode(x)
    native_codes, native_scale = native_encode(native, form, x)
    assert torch.equal(bits(native_scale), bits(scale))
    assert torch.equal(native_codes, codes)
    decoded = form.decode(codes, scale, x.shape)
    assert torch.equal(bits(native.load(form.native, codes, 0, x.numel(), scale)), bits(decoded))


@each_format
def test_native_has_the_same_blocks(native: Native, form: BlockFormat) -> None:
    assert native.library.block_of_(form.native) == form.block
    assert [native.library.block_of_(other) for other in range(3)] == [1, 1, 1]


@each_format
@pytest.mark.parametrize("case", adversarial(block_format("int8", "signed")))
def test_native_is_equal_bit_for_bit(native: Native, form: BlockFormat, case: str) -> None:
    assert_twins(native, form, adversarial(form)[case])


@each_format
@pytest.mark.parametrize("numel", SIZES)
def test_native_is_equal_for_every_size(native: Native, form: BlockFormat, numel: int) -> None:
    assert_twins(native, form, sample(form, numel))


@each_format
def test_native_decodes_every_byte_with_every_scale(native: Native, form: BlockFormat) -> None:
    codes = torch.arange(256, dtype=torch.uint8).repeat(2).view(form.code_dtype)
    numel = codes.numel() * 8 // form.bits
    for value in (LEAST, 33 * LEAST, 1e-38, 1e-20, 0.3, 1.0, 1e30, LARGEST, NAN, INF):
        scale = torch.full(form.scale_shape((numel,)), value)
        expected = form.decode(codes, scale, (numel,))
        loaded = native.load(form.native, codes, 0, numel, scale)
        if value in (NAN, INF) or value != value:  # 0 * inf: the sign of that NaN is the processor's
            assert torch.equal(loaded.isnan(), expected.isnan())
        else:
            assert torch.equal(bits(loaded), bits(expected))


@each_format
@settings(max_examples=60, deadline=None)
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
        native.store(
            form.native, part_codes, x[start : start + 3 * form.block], scale=part_scale, start=start
        )
    assert torch.equal(part_codes, codes) and torch.equal(part_scale, scale)


@each_format
@settings(max_examples=60, deadline=None)
@given(values=any_values)
def test_native_is_equal_for_any_floats(
    native: Native, form: BlockFormat, values: npt.NDArray[np.float32]
) -> None:
    assert_twins(native, form, torch.from_numpy(values))
