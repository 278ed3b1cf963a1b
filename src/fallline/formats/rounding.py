"""Stochastic rounding of float32 to bfloat16 and float16, from counters instead of a generator's state.

A state or weight in 16 bits loses every change below half a spacing when it is rounded to nearest: a second
moment with beta2 = 0.999 stops moving. Rounded up or down at random, with probabilities that keep the mean,
changes survive on average.

The random bits are a hash of a key, made of seed, step, parameter and slot, and of the element's logical
index. Memory layout, sharding, threads and device do not change them, so every lowering gets the same bits.

- NaN stays NaN, infinities stay infinite, and a value that the format represents never changes.
- Beyond the format's largest finite number, values are rounded to nearest, as by ``Tensor.to``: below the
  midpoint to the next number (65520 for float16) to the largest finite number, from there on to infinity.
  Therefore a finite value never becomes infinite by chance.
- The rounding is unbiased, except that subnormal float16 results use 16 random bits: a bias below 2^-16 spacings.

Rounding to nearest even is ``x.to(dtype)`` and needs no code here.
"""

from __future__ import annotations

import torch
from torch import Tensor

_PIECE = 1 << 20  # elements rounded at a time, which bounds the temporaries, several integers per element

_MASK64 = (1 << 64) - 1
_GOLDEN64 = 0x9E3779B97F4A7C15
_GOLDEN32 = 0x9E3779B9

_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_BF16_LARGEST = 0x7F7F0000
_F16_LARGEST = 0x477FE000  # 65504
_F16_LEAST_NORMAL = 0x38800000  # 2^-14
_F16_REBIAS = 112 << 23


def rounding_key(seed: int, step: int, parameter: int, slot: int) -> int:
    """A 64-bit key for one tensor at one step; ``slot`` distinguishes a parameter from its states.

    Each argument is absorbed by a bijective mix (splitmix64), so keys that differ in one argument only are
    always different.
    """
    key = _mix64((seed + _GOLDEN64) & _MASK64)
    for part in (step, parameter, slot):
        key = _mix64(((key ^ (part & _MASK64)) + _GOLDEN64) & _MASK64)
    return key


@torch.no_grad()
def stochastic_round(x: Tensor, dtype: torch.dtype, key: int | Tensor, start: int = 0) -> Tensor:
    """Round a float32 tensor to bfloat16 or float16 at random, keeping the mean.

    ``key`` comes from :func:`rounding_key`; nearby integers as keys would give related bits. It may be a 0-d
    int64 tensor with the same 64 bits, so that compiled code is not recompiled for every key. ``start`` is the
    logical index of the first element if ``x`` is a part of a tensor.
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"dtype must be torch.bfloat16 or torch.float16, got {dtype}")
    round_piece = _to_bfloat16 if dtype == torch.bfloat16 else _to_float16
    flat = x.reshape(-1)
    out = torch.empty(flat.shape, dtype=dtype, device=x.device)
    for first in range(0, flat.numel(), _PIECE):
        part = flat[first : first + _PIECE]
        index = torch.arange(start + first, start + first + part.numel(), device=x.device)
        out[first : first + _PIECE] = round_piece(part, _random_bits(key, index))
    return out.view(x.shape)


def _to_bfloat16(x: Tensor, random: Tensor) -> Tensor:
    bits = x.view(torch.int32)
    rounded = _half((bits + random) >> 16, torch.bfloat16)  # an arithmetic shift: fits int16 with its sign
    return torch.where((bits & _MAGNITUDE) > _BF16_LARGEST, _nearest(x, torch.bfloat16), rounded)


def _to_float16(x: Tensor, random: Tensor) -> Tensor:
    bits = x.view(torch.int32)
    magnitude = bits & _MAGNITUDE
    small = magnitude < _F16_LEAST_NORMAL
    normal = (magnitude - _F16_REBIAS + (random >> 3)) >> 13
    # Subnormal halves are multiples of 2^-24; 16 more bits decide.
    fixed_point = (torch.where(small, x.abs(), 0.0) * 2.0**40).to(torch.int32)
    half = torch.where(small, (fixed_point + random) >> 16, normal)
    half = torch.where(bits < 0, half - 0x8000, half)  # the sign bit, in int16
    return torch.where(magnitude > _F16_LARGEST, _nearest(x, torch.float16), _half(half, torch.float16))


def _half(bits: Tensor, dtype: torch.dtype) -> Tensor:
    return bits.to(torch.int16).view(dtype)


def _nearest(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounds to nearest even.  NaN keeps its sign and upper payload, which differ between torch's code paths."""
    bits = x.view(torch.int32)
    if dtype == torch.bfloat16:
        quiet = (bits >> 16) | 0x40
    else:
        quiet = (bits >> 13 & 0x3FF) | 0x7E00
        quiet = torch.where(bits < 0, quiet - 0x8000, quiet)
    return torch.where((bits & _MAGNITUDE) > _INFINITY, _half(quiet, dtype), x.to(dtype))


def _random_bits(key: int | Tensor, index: Tensor) -> Tensor:
    """16 random bits for each element index, as int32.

    Elements j and j + 128 of each group of 256 share one 32-bit hash, which halves the work without shuffles in SIMD.
    """
    counter = (index >> 8 << 7) | (index & 127)
    low, high = _key_halves(key)
    hashed = _mix32(_int32(counter) ^ low)
    hashed = _mix32(hashed ^ high ^ (_int32(counter >> 32) * _signed32(_GOLDEN32)))
    return torch.where((index & 128) == 0, hashed, hashed >> 16) & 0xFFFF


def _key_halves(key: int | Tensor) -> tuple[int | Tensor, int | Tensor]:
    if isinstance(key, Tensor):
        return _int32(key), _int32(key >> 32)
    return _signed32(key), _signed32(key >> 32)


def _int32(x: Tensor) -> Tensor:
    """The low 32 bits."""
    return (((x & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000).to(torch.int32)


def _signed32(x: int) -> int:
    return ((x & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _mix32(x: Tensor) -> Tensor:
    """The hash "lowbias32" by Chris Wellons, on int32: products wrap, shifts are made logical by a mask."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * _signed32(0x7FEB352D)
    x = (x ^ ((x >> 15) & 0x1FFFF)) * _signed32(0x846CA68B)
    return x ^ ((x >> 16) & 0xFFFF)


def _mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)
