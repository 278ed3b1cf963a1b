"""Batches of matrices (…, m, n) as the pieces that one call of a BLAS function takes.

Small matrices go together, because a call for each would cost more than its arithmetic.  Large ones go one by one as
2-D tensors: then a product may write into a part of a matrix without a copy, and temporaries are those of one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

LARGE = 384
"""Rows from which a matrix is large: below, computing half of a symmetric product takes longer than all of it."""


def stacked(matrices: Tensor) -> Tensor:
    """The batch with one leading axis; ``reshape(-1, …)`` cannot infer it where a matrix has no elements."""
    if matrices.dim() < 2:
        raise ValueError(f"matrices must have at least 2 dimensions, got shape {tuple(matrices.shape)}")
    return matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])


def wide(matrices: Tensor) -> Tensor:
    """The matrices with rows ≤ columns: themselves or a transposed view."""
    return matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices


def pieces(batch: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The stacked tensors, cut alike: the whole stack where matrices are small, else one matrix after the other."""
    if batch.shape[0] > 1 and min(batch.shape[-2:]) < LARGE:
        yield batch, *others
    else:
        for i in range(batch.shape[0]):
            yield batch[i], *(other[i] for other in others)
