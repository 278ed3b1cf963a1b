"""How codes and scales lie in memory, and what is refused."""

from __future__ import annotations

import pytest
import torch

from fallline.formats import FORMATS, MIN_ELEMENTS, BlockFormat, applies, block_format
from tests.formats.blocks import (
    NAN,
    SIZES,
    each_format,
    sample,
)
from tests.formats.levels import share


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
