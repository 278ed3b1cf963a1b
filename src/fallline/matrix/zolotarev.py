r"""The polar factor :math:`U V^\top` of :math:`X = U S V^\top`, nearly exactly, by Zolotarev's rational function.

Zolotarev (1877) found the odd rational functions that come nearest to the sign function on [−1, −l] ∪ [l, 1].  In
partial fractions, with R = XXᵀ/s,

.. math::
    O = \frac{M}{\sqrt s}\Big(I + \sum_j a_j\,(R + c_j I)^{-1}\Big) X

All :math:`a_j` are positive, so that nothing cancels, and each inverse is that of a symmetric positive matrix.  For
singular values of at least l·√s, O has singular values within ``deviation`` of 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import torch
from torch import Tensor

from fallline.matrix.batches import stacked, wide
from fallline.matrix.positive_inverse import positive_inverse
from fallline.matrix.products import pieces, product, symmetric_product


@dataclasses.dataclass(frozen=True)
class Zolotarev:
    """The coefficients of one function."""

    scale: float
    residues: tuple[float, ...]
    poles: tuple[float, ...]
    deviation: float
    """The largest distance from 1 of the function on [l, 1]."""


@functools.cache
def zolotarev(degree: int, smallest: float) -> Zolotarev:
    """The function with ``degree`` inverses for singular values down to ``smallest`` times the largest."""
    if degree < 1 or not 0.0 < smallest < 1.0:
        raise ValueError(f"degree must be >= 1 and smallest in (0, 1), got {degree} and {smallest}")
    points = [j / (2 * degree + 1) for j in range(1, 2 * degree + 1)]
    c = [smallest**2 * math.tan(_amplitude(share, smallest)) ** 2 for share in points]
    poles, zeros = c[::2], c[1::2]
    residues = [
        -math.prod(pole - zero for zero in zeros) / math.prod(pole - other for other in poles if other != pole)
        for pole in poles
    ]

    def value(x: float) -> float:
        return x * (1.0 + sum(a / (x * x + pole) for a, pole in zip(residues, poles, strict=True)))

    # The function swings between two values on [l, 1], and takes one of them at both ends.
    extremes = [value(smallest * (1.0 / smallest) ** (k / 2000)) for k in range(2001)]
    low, high = min(extremes), max(extremes)
    scale = 2.0 / (low + high)
    return Zolotarev(scale, tuple(residues), tuple(poles), (high - low) / (high + low))


def _amplitude(share: float, complement: float) -> float:
    """Jacobi's amplitude at this share of the quarter period, for the modulus √(1 − complement²), by means."""
    a, b, c = [1.0], complement, [math.sqrt(1.0 - complement**2)]
    while abs(c[-1]) > 1e-16 * a[-1]:
        c.append((a[-1] - b) / 2)
        a_next, b = (a[-1] + b) / 2, math.sqrt(a[-1] * b)
        a.append(a_next)
    count = len(a) - 1
    angle = 2.0**count * share * math.pi / 2  # the quarter period is π / 2a
    for n in range(count, 0, -1):
        angle = (angle + math.asin(c[n] / a[n] * math.sin(angle))) / 2
    return angle


def polar_factor(matrices: Tensor, *, degree: int = 3, smallest: float = 1e-3, eps: float = 1e-7) -> Tensor:
    """Each matrix with its singular values moved to within ``zolotarev(degree, smallest).deviation`` of 1.

    Matrices whose norm is below ``eps`` go to 0 in proportion, as with Newton–Schulz.  A matrix with NaN or infinity
    gives NaN.
    """
    start = wide(stacked(matrices))
    found = torch.empty_like(start)
    if start.numel():
        chosen = zolotarev(degree, smallest)
        for x, out in pieces(start, found):
            _polar(x, chosen, eps, out)
    return (found.mT if matrices.shape[-2] > matrices.shape[-1] else found).reshape(matrices.shape)


def _polar(x: Tensor, chosen: Zolotarev, eps: float, out: Tensor) -> None:
    rows = x.shape[-2]
    # Squares of tiny or huge numbers would leave the range of float32.
    largest = x.abs().amax(dim=(-2, -1), keepdim=True)
    divisor = torch.where((largest > 0) & largest.isfinite(), largest, torch.ones_like(largest))
    unit = torch.div(x, divisor, out=torch.empty(x.shape, dtype=x.dtype, device=x.device))
    r = symmetric_product(unit, unit, x.new_empty(*x.shape[:-2], rows, rows))
    # Both norms are at least the square of the largest singular value, and usually far below the sum of squares.
    norm = torch.minimum(
        torch.linalg.vector_norm(r, dim=(-2, -1), keepdim=True),
        torch.linalg.matrix_norm(r, ord=math.inf, keepdim=True),
    ).clamp_(min=torch.finfo(x.dtype).tiny)
    r.div_(norm)
    total = torch.zeros_like(r)
    total.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    failed = torch.zeros(x.shape[:-2], dtype=torch.bool, device=x.device)
    for residue, pole in zip(chosen.residues, chosen.poles, strict=True):
        shifted = r.clone()
        shifted.diagonal(dim1=-2, dim2=-1).add_(pole)
        inverse, good = positive_inverse(shifted)
        failed |= ~good
        total.add_(inverse, alpha=residue)
    if not failed.is_meta and bool(failed.any()):
        total[failed] = _by_eigenvalues(r[failed], chosen)
    short = (largest * norm.sqrt() / eps).clamp_(max=1.0) if eps > 0 else torch.ones_like(norm)
    torch.mul(product(total, unit, out), chosen.scale * short / norm.sqrt(), out=out)


def _by_eigenvalues(r: Tensor, chosen: Zolotarev) -> Tensor:
    """I + Σ a/(R + c) where rounding made a shifted matrix indefinite; NaN where R is not finite."""
    finite = r.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    values, vectors = torch.linalg.eigh(torch.where(finite, r, torch.zeros_like(r)).double())
    values.clamp_(min=0.0)
    sums = 1.0 + sum(a / (values + c) for a, c in zip(chosen.residues, chosen.poles, strict=True))
    found = (vectors * sums.unsqueeze(-2)) @ vectors.mT
    return torch.where(finite, found.to(r.dtype), torch.full_like(r, math.nan))
