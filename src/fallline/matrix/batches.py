"""Batches of matrices (…, m, n), with one leading axis and at least as many columns as rows."""

from __future__ import annotations

import math

from torch import Tensor


def stacked(matrices: Tensor) -> Tensor:
    """The batch with one leading axis; ``reshape(-1, …)`` cannot infer it where a matrix has no elements."""
    if matrices.dim() < 2:
        raise ValueError(f"matrices must have at least 2 dimensions, got shape {tuple(matrices.shape)}")
    return matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])


def wide(matrices: Tensor) -> Tensor:
    """The matrices with rows ≤ columns: themselves or a transposed view."""
    return matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
