"""Values and codes that the tests of low-bit blocks share."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from fallline.formats import FORMATS, BlockFormat
from tests.formats import bits
from tests.formats.levels import share

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


def byte_codes(form: BlockFormat, codes: Tensor, numel: int) -> Tensor:
    return codes.view(-1) if form.bits == 8 else form.unpacked(codes, numel)


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
