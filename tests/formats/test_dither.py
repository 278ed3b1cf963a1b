"""Codes rounded up or down in proportion: right on average, and without harm to what the formats promise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fallline.formats import BlockFormat, block_format
from tests.formats.blocks import byte_codes, each_format, sample
from tests.formats.levels import dither, level, share


def test_shifts_of_a_block_are_even() -> None:
    for shifts in dither(torch.tensor([1.0, 3e-7, 12345.0]), 256):
        assert shifts.abs().max() < 0.5
        assert shifts.mean().abs() < 0.01
        # Sorted, they lie close to the evenly spaced ones.
        assert (shifts.sort().values - (torch.arange(256) + 0.5) / 256 + 0.5).abs().max() < 0.02


@each_format
def test_codes_are_one_of_the_two_beside_the_value(form: BlockFormat) -> None:
    for seed in range(20):
        x = sample(form, 5 * form.block + 3, seed)
        codes, scale = form.encode(x)
        exact = level(form, x.double().abs() / scale.double().repeat_interleave(form.block)[: len(x)])
        found = byte_codes(form, codes, len(x)).double().abs()
        assert (found >= (exact * (1 - 1e-5)).floor()).all()
        lowest = 1 if form.kind == "nonneg" else 0  # what is above zero stays so
        assert (found <= (exact * (1 + 1e-5)).ceil().clamp_min(lowest)).all()


@each_format
def test_the_mean_of_the_codes_is_right(form: BlockFormat) -> None:
    """Over blocks that differ in nothing but a factor, and so in the place where their shifts begin."""
    levels = torch.linspace(1, form.levels, form.block - 1, dtype=torch.float64)
    block = torch.cat((torch.ones(1), share(form, levels).float()))
    count = 4000
    factors = 1 + torch.rand(count, 1, generator=torch.Generator().manual_seed(0))
    codes, _ = form.encode((block * factors).view(-1))
    found = byte_codes(form, codes, count * form.block).view(count, -1).double().mean(0)
    # Five standard errors of a coin that is tossed so often.
    assert ((found - level(form, block.double())).abs() < 5 * 0.5 / count**0.5 + 1e-3).all()


def moving_mean(form: BlockFormat, beta: float) -> tuple[Tensor, Tensor]:
    """A mean of squares as it is stored, and as it should be; in each block one gradient is large at first, then 0."""
    kept = exact = torch.zeros(16 * form.block)
    generator = torch.Generator().manual_seed(0)
    for step in range(1000):
        squares = torch.randn(16 * form.block, generator=generator).square()
        squares[:: form.block] = 100.0 if step < 100 else 0.0
        kept, exact = (beta * v + (1 - beta) * squares for v in (kept, exact))
        kept = form.decode(*form.encode(kept), kept.shape)
    return kept, exact


def test_a_slow_second_moment_follows_its_gradients() -> None:
    """To nearest it would only follow the scale of its block: a step of a thousandth is less than half of any code."""
    kept, exact = moving_mean(block_format("int8", "nonneg"), 0.999)
    assert (kept / exact).log().mean().exp().item() == pytest.approx(1.0, abs=0.02)


@each_format
def test_the_largest_of_a_block_is_never_rounded_beyond(form: BlockFormat) -> None:
    """The next code would be NaN."""
    x = torch.ones(form.block) * torch.linspace(1, 2, 2000).unsqueeze(1)
    codes, scale = form.encode(x.view(-1))
    assert (byte_codes(form, codes, x.numel()) == form.levels).all()
    assert torch.equal(scale, x[:, 0])
