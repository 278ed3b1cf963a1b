"""Low-bit states: blocks of elements in logical order, one float32 scale per block, root companding.

The scale is the block's largest finite magnitude, and a code k of K levels stands for about

    signed:  sign(k) (|k| / K)^2 scale,  -K <= k <= K,   K = 127 (int8) or 7 (int4),
    nonneg:  (k / K)^4 scale,             0 <= k <= K,   K = 254 (int8) or 14 (int4).

Encoding takes a pseudo-root, which is a shift of the float's bits, adds a dither and rounds:

    |k| = round(shift(|x| * (1 / scale), right) + o + d),    |x| = shift(|k| - o, left) * scale

The remaining code (-K - 1 or K + 1) is NaN; a block that contains it has a negative scale.  int8 codes have the
tensor's shape.  int4 codes are flat, two per byte, the first one in the low half.  ``docs/formats.md`` gives the
reasons and the treatment of special values.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

MIN_ELEMENTS = 4096
"""Smaller tensors stay float32: they would save nothing, and biases and norms are the most sensitive tensors."""


_LEAST_NORMAL = torch.finfo(torch.float32).tiny
_LARGEST_SCALE = float.fromhex("0x1.fffffcp127")
_DITHERS, _DITHER_STEP = 1024, 633  # the step visits all dithers, evenly spread
_LEAST_DITHERED = 2.0**-90
_PIECE = 1 << 22  # elements encoded at a time, which bounds the temporaries


def applies(numel: int) -> bool:
    """Whether a tensor of this many elements, counted over all shards, is stored in low bits."""
    return numel >= MIN_ELEMENTS


@dataclass(frozen=True)
class BlockFormat:
    """A low-bit format for one kind of state.

    >>> int8 = block_format("int8", "signed")
    >>> codes, scale = int8.encode(torch.tensor([[4.0, -1.0], [0.0, float("nan")]]))
    >>> codes, scale
    (tensor([[ 127,  -64],
            [   0, -128]], dtype=torch.int8), tensor([-4.]))
    >>> int8.decode(codes, scale, (2, 2))
    tensor([[ 4.0000, -1.0312],
            [ 0.0000,     nan]])
    """

    name: Literal["int8", "int4"]
    kind: Literal["signed", "nonneg"]
    bits: int
    block: int
    levels: int
    native: int
    """The number of the format in ``native/formats.h``."""

    @property
    def code_dtype(self) -> torch.dtype:
        return self._byte_dtype if self.bits == 8 else torch.uint8

    @property
    def _byte_dtype(self) -> torch.dtype:
        """One code per byte, before int4 codes are packed."""
        return torch.int8 if self.kind == "signed" else torch.uint8

    @property
    def nan_code(self) -> int:
        return self.levels + 1 if self.kind == "nonneg" else -self.levels - 1

    @property
    def largest_scale(self) -> float:
        return _LARGEST_SCALE

    @property
    def bytes_per_element(self) -> float:
        return self.bits / 8 + 4 / self.block

    def code_shape(self, shape: Sequence[int], first: int = 0) -> tuple[int, ...]:
        """The shape of the codes of a tensor of this shape; if the tensor is a piece of another one, ``first`` is the
        logical index there of its first element."""
        if self.bits == 8:
            return tuple(shape)
        count = prod(shape)
        return ((first + count + 1) // 2 - first // 2 if count else 0,)

    def scale_shape(self, shape: Sequence[int], first: int = 0) -> tuple[int]:
        """The shape of the scales: one for each block that has an element in the piece."""
        count = prod(shape)
        return (-(-(first + count) // self.block) - first // self.block if count else 0,)

    def zeros(
        self, shape: Sequence[int], device: torch.device | str | None = None, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Codes and scales of a tensor of zeros."""
        codes = torch.zeros(self.code_shape(shape, first), dtype=self.code_dtype, device=device)
        return codes, torch.zeros(self.scale_shape(shape, first), dtype=torch.float32, device=device)

    @torch.no_grad()
    def encode(self, x: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Codes and scales of a float32 tensor of any shape and memory layout.

        Blocks follow the whole tensor of which ``x`` may be a piece.  A block that goes on in another piece is encoded
        from the values of this piece, until :meth:`encode_edge` gets its common scale.
        """
        if x.dtype != torch.float32:
            raise TypeError(f"x must be float32 to be stored as {self.name}, got {x.dtype}")
        flat = x.reshape(-1)
        codes = torch.empty(flat.shape, dtype=self._byte_dtype, device=x.device)
        scale = torch.empty(self.scale_shape(x.shape, first), dtype=torch.float32, device=x.device)
        for blocks, elements in _pieces(flat.numel(), self.block, first):
            values = flat[elements].view(blocks.stop - blocks.start, -1)
            block_codes, scale[blocks] = self._encode_blocks(values)
            codes[elements] = block_codes.view(-1)
        return (codes.view(x.shape) if self.bits == 8 else _pack(codes, first)), scale

    @torch.no_grad()
    def encode_edge(self, x: Tensor, scale: float, position: int) -> Tensor:
        """The codes, one per byte, of values that begin at ``position`` of a block with the given scale."""
        block = torch.zeros(1, self.block, dtype=torch.float32, device=x.device)
        block[0, position : position + x.numel()] = x.reshape(-1)
        codes, _ = self._encode_blocks(block, torch.full((1,), abs(scale), dtype=torch.float32, device=x.device))
        return codes[0, position : position + x.numel()]

    def write_packed(self, packed: Tensor, codes: Tensor, first: int, start: int) -> None:
        """Writes codes, given one per byte, into the packed codes of a piece, from its element ``start`` on."""
        bytes_of = (first % 2 + start + torch.arange(codes.numel(), device=packed.device)) // 2
        high = ((first + start + torch.arange(codes.numel(), device=packed.device)) % 2).bool()
        halves = codes.view(torch.uint8) & 15
        for chosen, keep, shift in ((~high, 0xF0, 0), (high, 0x0F, 4)):
            at = bytes_of[chosen]
            packed[at] = (packed[at] & keep) | (halves[chosen] << shift)

    def magnitude(self, x: Tensor) -> Tensor:
        """The magnitudes of which the largest is the scale of a block; 0 where a value does not count."""
        finite = x.isfinite()
        return torch.where(finite if self.kind == "signed" else finite & (x > 0), x.abs(), 0.0)

    @torch.no_grad()
    def decode(self, codes: Tensor, scale: Tensor, shape: Sequence[int], first: int = 0) -> Tensor:
        """The contiguous float32 tensor that codes and scales stand for."""
        self._check("codes", codes, self.code_dtype, self.code_shape(shape, first))
        self._check("scale", scale, torch.float32, self.scale_shape(shape, first))
        numel = prod(shape)
        flat = codes.reshape(-1) if self.bits == 8 else self.unpacked(codes, numel, first)
        out = torch.empty(numel, dtype=torch.float32, device=codes.device)
        for blocks, elements in _pieces(numel, self.block, first):
            block_codes = flat[elements].view(blocks.stop - blocks.start, -1)
            out[elements] = self._decode_blocks(block_codes, scale[blocks].unsqueeze(1)).view(-1)
        return out.view(tuple(shape))

    def _check(self, what: str, tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        if tensor.dtype != dtype or tuple(tensor.shape) != shape:
            raise ValueError(
                f"{what} of a {self.kind} {self.name} state must be {dtype} of shape {shape}, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
            )

    def _encode_blocks(self, x: Tensor, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
        finite, size = x.isfinite(), self.magnitude(x)
        if scale is None:
            scale = size.amax(1).clamp_max_(_LARGEST_SCALE)
        # A subnormal scale would make the factor overflow; multiplying such a block by 2^64 is exact.
        lift = torch.where(scale < _LEAST_NORMAL, 2.0**64, torch.ones_like(scale))
        factor = torch.where(scale > 0, torch.ones_like(scale).div_(scale * lift), 0.0)
        share = (size * lift.unsqueeze(1)).mul_(factor.unsqueeze(1))
        root = ((share.view(torch.int32) >> self._shift) + self._offset).view(torch.float32)
        code = root.add_(_dither(scale, x.shape[1])).round_()
        if self.kind == "signed":
            code = code.copysign_(x)
        else:
            code = torch.maximum(code, (size > 0).to(torch.float32))
        code = code.masked_fill_(~finite, float(self.nan_code))
        return code.to(self._byte_dtype), torch.where(finite.all(1), scale, -scale)

    def _decode_blocks(self, codes: Tensor, scale: Tensor) -> Tensor:
        code = codes.to(torch.float32)
        share = (code.abs().view(torch.int32) - self._offset).clamp_min_(0) << self._shift
        value = share.view(torch.float32).mul_(scale.abs()).copysign_(code)
        return value.masked_fill_((codes == self.nan_code) & scale.signbit(), float("nan"))

    @property
    def _shift(self) -> int:
        """The logarithm of the root's degree."""
        return 1 if self.kind == "signed" else 2

    @property
    def _offset(self) -> int:
        """The difference between the bits of the largest level and those of the pseudo-root of 1."""
        one, top = (struct.unpack("<i", struct.pack("<f", x))[0] for x in (1.0, self.levels))
        return int(top - (one >> self._shift))

    def unpacked(self, packed: Tensor, numel: int, first: int = 0) -> Tensor:
        """int4 codes, one per byte."""
        odd = first % 2
        halves = torch.stack((packed & 15, packed >> 4), dim=1).view(-1)[odd : odd + numel]
        if self.kind == "nonneg":
            return halves
        return (halves.to(torch.int8) ^ 8) - 8  # extends the sign


def _dither(scale: Tensor, count: int) -> Tensor:
    """The numbers that are added to the roots of blocks of ``count`` elements before rounding."""
    first = ((scale.view(torch.int32) >> 8).to(torch.int64) * 0x9E3779B9 & 0xFFFFFFFF) >> 22
    index = first.unsqueeze(1) + torch.arange(count, device=scale.device)
    shift = (index * _DITHER_STEP % _DITHERS + 0.5).div_(_DITHERS).sub_(0.5).to(torch.float32)
    return shift.masked_fill_((scale < _LEAST_DITHERED).unsqueeze(1), 0.0)


def _pack(codes: Tensor, first: int = 0) -> Tensor:
    """Two codes per byte; a half that belongs to no element of the piece is 0."""
    halves = codes.view(torch.uint8) & 15
    if first % 2 and halves.numel():
        halves = torch.cat((halves.new_zeros(1), halves))
    if halves.numel() % 2:
        halves = torch.cat((halves, halves.new_zeros(1)))
    return halves[0::2] | (halves[1::2] << 4)


def _pieces(numel: int, block: int, first: int) -> list[tuple[slice, slice]]:
    """Slices of the scales and of the elements that are encoded at a time: the rest of a block that begins before
    ``first``, then whole blocks, then the beginning of a last block."""
    head = min(-first % block, numel)
    whole, step = (numel - head) // block, _PIECE // block
    at = int(head > 0)
    parts = [(slice(0, 1), slice(0, head))] if head else []
    for a, b in pairwise([*range(0, whole, step), whole]):
        parts.append((slice(at + a, at + b), slice(head + a * block, head + b * block)))
    if (numel - head) % block:
        parts.append((slice(at + whole, at + whole + 1), slice(head + whole * block, numel)))
    return parts


FORMATS: dict[tuple[str, str], BlockFormat] = {
    (form.name, form.kind): form
    for form in (
        BlockFormat("int8", "signed", bits=8, block=256, levels=127, native=3),
        BlockFormat("int8", "nonneg", bits=8, block=256, levels=254, native=4),
        BlockFormat("int4", "signed", bits=4, block=128, levels=7, native=5),
        BlockFormat("int4", "nonneg", bits=4, block=128, levels=14, native=6),
    )
}


def block_format(name: str, kind: str) -> BlockFormat:
    """The format called ``name`` ("int8" or "int4") for states of a kind ("signed" or "nonneg")."""
    try:
        return FORMATS[name, kind]
    except KeyError:
        known = ", ".join(f"{name} {kind}" for name, kind in FORMATS)
        raise ValueError(f"no low-bit format {name!r} for {kind!r} states; there are: {known}") from None
