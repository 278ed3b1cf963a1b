"""Products of matrices into given memory; of a product that is symmetric, a large one computes only half."""

from __future__ import annotations

import torch
from torch import Tensor

from fallline.matrix.batches import LARGE

BLOCK = 128
"""Rows of the result that are computed at once: few enough to skip most of the lower half, enough to be fast."""


def product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    return torch.mm(left, right, out=out) if left.dim() == 2 else torch.bmm(left, right, out=out)


def weighted_product(start: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float, out: Tensor) -> Tensor:
    """beta · start + alpha · left · right; ``out`` is none of the other tensors."""
    multiply = torch.addmm if left.dim() == 2 else torch.baddbmm
    return multiply(start, left, right, beta=beta, alpha=alpha, out=out)


def symmetric_product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """left · right where the result is known to be symmetric: X · Xᵀ, or factors that commute."""
    rows = left.shape[-2]
    if left.dim() > 2 or rows < LARGE:
        return product(left, right, out)
    for start in range(0, rows, BLOCK):
        end = min(start + BLOCK, rows)
        torch.mm(left[start:end], right[:, start:], out=out[start:end, start:])
        out[end:, start:end] = out[start:end, end:].T
    return out


def symmetric_polynomial(a: float, b: float, c: float, matrix: Tensor, out: Tensor) -> Tensor:
    """a I + b A + c A² of a symmetric A."""
    rows = matrix.shape[-2]
    if matrix.dim() > 2 or rows < LARGE:
        weighted_product(matrix, matrix, matrix, b, c, out)
    else:
        for start in range(0, rows, BLOCK):
            end = min(start + BLOCK, rows)
            # The columns of a symmetric matrix are its rows, which lie together in memory.
            torch.addmm(
                matrix[start:end, start:],
                matrix[start:end],
                matrix[start:].T,
                beta=b,
                alpha=c,
                out=out[start:end, start:],
            )
            out[end:, start:end] = out[start:end, end:].T
    if a:
        out.diagonal(dim1=-2, dim2=-1).add_(a)
    return out
