"""Stochastic rounding keeps the mean, keeps what is exact, and is the same everywhere."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fallline.formats import rounding_key, stochastic_round
from fallline.formats.rounding import _random_bits
from tests.formats import TARGETS, Native, bits, native_for

NATIVE = {torch.bfloat16: 1, torch.float16: 2}  # numbers of the formats in native/formats.h
DROPPED_BITS = {torch.bfloat16: 16, torch.float16: 13}
NAN, INF = float("nan"), float("inf")

each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])


@pytest.fixture(scope="module", params=TARGETS)
def native(request: pytest.FixtureRequest) -> Native:
    return native_for(request.param)


def every_half(dtype: torch.dtype) -> Tensor:
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def any_floats(numel: int = 100_000, seed: int = 0) -> Tensor:
    """Every kind of float32, many within the range of a half, and both sides of what rounding decides."""
    generator = torch.Generator().manual_seed(seed)
    any_bits = torch.randint(-(2**31), 2**31, (numel,), generator=generator).to(torch.int32)
    exponents = torch.randint(-30, 18, (numel,), generator=generator)
    moderate = torch.randn(numel, generator=generator) * 2.0**exponents
    halves = torch.cat([every_half(dtype).float() for dtype in (torch.bfloat16, torch.float16)])
    middles = bits(halves[halves.isfinite()]) + 0x1000
    near = torch.cat((middles - 1, middles, middles + 1, middles + 0x7000)).view(torch.float32)
    special = torch.tensor([0.0, INF, NAN, 65504, 65519.99, 65520, 65535, 3.3961775e38])
    return torch.cat((any_bits.view(torch.float32), moderate, near, special, -special))


def same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(bits(a), bits(b))


# ---- The mean. ----


def within_binomial_bound(count: int, trials: int, probability: float) -> bool:
    """Within 5 standard deviations: fails once in two million correct cases."""
    return abs(count - trials * probability) <= 5 * math.sqrt(trials * probability * (1 - probability)) + 1e-9


@each_dtype
@pytest.mark.parametrize("base", [1.0, -1.5, 3e-3, 2.0**-14, 2.0**-17, 2.0**-24, 0.0], ids=str)
@pytest.mark.parametrize("fraction", [0.5, 0.25, 0.9, 0.01, 1 / 128])
def test_the_mean_over_many_keys_is_right(dtype: torch.dtype, base: float, fraction: float) -> None:
    """The share rounded away from zero is the fraction of the spacing, also for subnormal halves."""
    lower = torch.tensor(base).to(dtype)
    upper = (bits(lower) + 1).view(dtype)
    if base == 0.0 and dtype == torch.bfloat16:
        pytest.skip("between 0 and bfloat16's least subnormal float32 has too few numbers for these fractions")
    value = (lower.double() + fraction * (upper.double() - lower.double())).float()
    true_fraction = ((value.double() - lower.double()) / (upper.double() - lower.double())).item()
    up, trials = 0, 0
    for step in range(20):
        rounded = stochastic_round(value.repeat(4000), dtype, rounding_key(0, step, 0, 0))
        assert ((rounded == lower) | (rounded == upper)).all()
        up += int((rounded == upper).sum())
        trials += rounded.numel()
    assert within_binomial_bound(up, trials, true_fraction)


@each_dtype
def test_the_mean_of_one_element_over_keys_is_right(dtype: torch.dtype) -> None:
    """Not only over elements: one element must not be unlucky at every step."""
    x = 1 + torch.linspace(0, 1, 500) * 2.0**-7
    rounded = torch.stack([stochastic_round(x, dtype, rounding_key(3, step, 1, 2)) for step in range(400)])
    spacing = 2.0**-7 if dtype == torch.bfloat16 else 2.0**-10
    deviation = (rounded.double().mean(0) - x.double()) / spacing
    assert deviation.abs().max() < 5 * 0.5 / math.sqrt(400)
    assert abs(deviation.mean().item()) < 5 * 0.5 / math.sqrt(400 * 500)


def test_a_slow_average_still_moves() -> None:
    """Its purpose: with beta2 = 0.999, nearest rounding freezes below the target."""
    nearest = torch.full((4096,), 0.5, dtype=torch.bfloat16)
    stochastic = nearest.clone()
    for step in range(3000):
        nearest = (0.999 * nearest.float() + 0.001 * 1.0).bfloat16()
        update = 0.999 * stochastic.float() + 0.001 * 1.0
        stochastic = stochastic_round(update, torch.bfloat16, rounding_key(0, step, 0, 1))
    exact = 1 - 0.5 * 0.999**3000
    assert (nearest == 0.5).all()
    assert abs(stochastic.float().mean().item() - exact) < 0.005


# ---- What must not change. ----


@each_dtype
def test_representable_values_are_kept(dtype: torch.dtype) -> None:
    x = every_half(dtype)
    for step in range(3):
        rounded = stochastic_round(x.float(), dtype, rounding_key(0, step, 0, 0))
        assert same(rounded[~x.isnan()], x[~x.isnan()])
        assert torch.equal(rounded.isnan(), x.isnan())


@each_dtype
def test_the_result_is_a_neighbour(dtype: torch.dtype) -> None:
    x = any_floats()
    x = x[x.isfinite() & (x.abs() <= torch.finfo(dtype).max)]
    rounded = stochastic_round(x, dtype, rounding_key(1, 2, 3, 4))
    nearest = x.to(dtype)
    toward_zero = torch.where(nearest.double().abs() > x.double().abs(), bits(nearest) - 1, bits(nearest))
    step = (bits(rounded) - toward_zero.to(torch.int16)).int()
    assert ((step == 0) | (step == 1)).all()
    assert torch.equal(rounded.signbit(), x.signbit())


@each_dtype
def test_beyond_the_largest_number_as_to_nearest(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    middle = {torch.float16: 65520.0, torch.bfloat16: 2.0**128 - 2.0**119}[dtype]
    below = torch.tensor(middle).nextafter(torch.tensor(0.0))
    x = torch.tensor([largest, below, middle, torch.finfo(torch.float32).max, INF]).repeat(500)
    expected = torch.tensor([largest, largest, INF, INF, INF]).repeat(500)
    for sign in (1, -1):
        rounded = stochastic_round(sign * x, dtype, rounding_key(0, 0, 0, 0))
        assert torch.equal(rounded.float(), sign * expected)
        assert same(rounded, (sign * x).to(dtype))


@each_dtype
def test_nan_stays_nan_whatever_its_payload(dtype: torch.dtype) -> None:
    payloads = torch.tensor([0x7F800001, 0x7FFFFFFF, 0x7FC00000, 0x7F80FFFF, 0x7FBFFFFF], dtype=torch.int32)
    x = torch.cat((payloads, payloads | -(2**31))).view(torch.float32).repeat(100)
    rounded = stochastic_round(x, dtype, rounding_key(0, 0, 0, 0))
    assert rounded.isnan().all()
    assert torch.equal(rounded.signbit(), x.signbit())


# ---- What the bits depend on. ----


@each_dtype
@settings(max_examples=50, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 3000), max_size=5),
    offset=st.sampled_from([0, 1, 255, 2**31 - 77, 2**33 - 1000, 2**40]),
)
def test_parts_round_like_the_whole(dtype: torch.dtype, cuts: list[int], offset: int) -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    key = rounding_key(5, 6, 7, 8)
    whole = stochastic_round(x, dtype, key, start=offset)
    edges = [0, *sorted(cuts), 3000]
    parts = [stochastic_round(x[a:b], dtype, key, start=offset + a) for a, b in itertools.pairwise(edges)]
    assert same(torch.cat(parts), whole)


def test_long_tensors_are_rounded_like_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5000)
    whole = stochastic_round(x, torch.bfloat16, 12345)
    monkeypatch.setattr("fallline.formats.rounding._PIECE", 777)
    assert same(stochastic_round(x, torch.bfloat16, 12345), whole)


@each_dtype
def test_memory_layout_does_not_matter(dtype: torch.dtype) -> None:
    x = torch.randn(40, 30)
    key = rounding_key(0, 1, 2, 3)
    rounded = stochastic_round(x.t(), dtype, key)
    assert rounded.shape == (30, 40) and rounded.is_contiguous()
    assert same(rounded, stochastic_round(x.t().contiguous(), dtype, key))


@each_dtype
@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_shapes_without_or_with_one_element(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    rounded = stochastic_round(torch.ones(shape), dtype, 1)
    assert rounded.shape == shape and rounded.dtype == dtype


def test_keys_and_elements_decide() -> None:
    x = torch.full((4096,), 1 + 2.0**-8)  # in the middle between two bfloat16 numbers

    def up(*key: int, start: int = 0) -> Tensor:
        return stochastic_round(x, torch.bfloat16, rounding_key(*key), start) > 1

    first = up(0, 0, 0, 0)
    assert torch.equal(first, up(0, 0, 0, 0))
    others = [up(1, 0, 0, 0), up(0, 1, 0, 0), up(0, 0, 1, 0), up(0, 0, 0, 1), up(0, 0, 0, 0, start=4096)]
    others += [up(0, 0, 0, 0, start=2**33), up(0, 0, 0, 0, start=2**34)]  # beyond 32 bits of the counter
    for i, a in enumerate([first, *others]):
        for b in [first, *others][i + 1 :]:
            assert within_binomial_bound(int((a == b).sum()), 4096, 0.5)
    # neighbours, and the two elements that share a hash
    for distance in (1, 2, 128, 256):
        assert within_binomial_bound(int((first[distance:] == first[:-distance]).sum()), 4096 - distance, 0.5)


def test_random_bits_are_uniform() -> None:
    n = 1 << 18
    for key in (rounding_key(0, 0, 0, 0), rounding_key(0, 1, 0, 0)):
        drawn = _random_bits(key, torch.arange(n))
        assert drawn.min() >= 0 and drawn.max() <= 0xFFFF
        for bit in range(16):
            assert within_binomial_bound(int((drawn >> bit & 1).sum()), n, 0.5)
        counts = torch.bincount(drawn >> 8, minlength=256).double()
        chi2 = ((counts - n / 256) ** 2 / (n / 256)).sum().item()
        assert abs(chi2 - 255) < 5 * math.sqrt(2 * 255)


def test_keys_are_64_bits_and_distinct() -> None:
    cases = list(itertools.product((0, 1, -1), (0, 1, 2**40), range(9), range(5)))
    keys = {rounding_key(*case) for case in cases}
    assert len(keys) == len(cases)
    assert all(0 <= key < 2**64 for key in keys)
    ones = sum(key.bit_count() for key in keys)
    assert within_binomial_bound(ones, 64 * len(keys), 0.5)


@each_dtype
def test_a_tensor_key_gives_the_same(dtype: torch.dtype) -> None:
    x = torch.randn(2000)
    for step in range(4):
        key = rounding_key(0, step, 0, 0)
        tensor = torch.tensor(key - 2**64 if key >= 2**63 else key)
        assert same(stochastic_round(x, dtype, tensor), stochastic_round(x, dtype, key))


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(TypeError, match=r"x must be float32, got torch.float64"):
        stochastic_round(torch.zeros(2, dtype=torch.float64), torch.bfloat16, 0)
    with pytest.raises(ValueError, match=r"dtype must be .*, got torch.int8"):
        stochastic_round(torch.zeros(2), torch.int8, 0)


# ---- The native twin. ----


def native_round(native: Native, x: Tensor, dtype: torch.dtype, key: int | None, start: int = 0) -> Tensor:
    out = torch.zeros(start + x.numel(), dtype=dtype)
    native.store(NATIVE[dtype], out, x, start=start, key=key)
    assert not out[:start].any()
    return out[start:]


@each_dtype
def test_native_rounds_stochastically_bit_for_bit(native: Native, dtype: torch.dtype) -> None:
    for seed in range(3):
        x, key = any_floats(seed=seed), rounding_key(seed, 1, 2, 3)
        assert same(native_round(native, x, dtype, key), stochastic_round(x, dtype, key))


@each_dtype
@pytest.mark.parametrize("start", [0, 1, 100, 128, 255, 256, 1000])
@pytest.mark.parametrize("numel", [1, 127, 256, 700])
def test_native_rounds_parts_alike(native: Native, dtype: torch.dtype, start: int, numel: int) -> None:
    x, key = torch.randn(numel), rounding_key(0, 0, 0, 9)
    assert same(native_round(native, x, dtype, key, start), stochastic_round(x, dtype, key, start))


@each_dtype
def test_native_rounds_to_nearest_like_torch(native: Native, dtype: torch.dtype) -> None:
    x = any_floats()
    rounded, expected = native_round(native, x, dtype, None), x.to(dtype)
    assert torch.equal(rounded.isnan(), x.isnan())
    assert same(rounded[~x.isnan()], expected[~x.isnan()])
    assert same(rounded, native_round(native_for("baseline"), x, dtype, None)), "the same bits for NaN, too"


@each_dtype
def test_native_loads_every_half_like_torch(native: Native, dtype: torch.dtype) -> None:
    halves = every_half(dtype)
    loaded = native.load(NATIVE[dtype], halves, 0, halves.numel())
    assert torch.equal(loaded.isnan(), halves.isnan())
    assert same(loaded[~halves.isnan()], halves.float()[~halves.isnan()])
    assert same(loaded, native_for("baseline").load(NATIVE[dtype], halves, 0, halves.numel()))
    assert same(native.load(NATIVE[dtype], halves, 77, 1001), loaded[77 : 77 + 1001])


def test_native_float32_is_a_copy(native: Native) -> None:
    x = any_floats()
    out = torch.zeros_like(x)
    native.store(0, out, x[5:99], start=5)
    assert same(out[5:99], x[5:99]) and not out[:5].any() and not out[99:].any()
    assert same(native.load(0, x, 3, 1000), x[3:1003])
