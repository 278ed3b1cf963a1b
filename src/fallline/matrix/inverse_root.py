"""Inverse roots of symmetric matrices, by their eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]


def inverse_root(matrices: Tensor, exponent: float, eps: float) -> tuple[Tensor, Tensor]:
    """``(A + eps·1)^(−exponent)`` of each symmetric matrix A, and whether each could be computed.

    Rounding may give a positive matrix negative eigenvalues: all are then raised by as much as the lowest is below 0,
    as Distributed Shampoo does.  A matrix that is not finite, or whose root is not, counts as failed; so does one whose
    eigenvalues cannot be found in float64 either.  On CPUs eigenvalues are faster than Newton's iteration, and nearer.
    """
    if not matrices.numel():
        return matrices.clone(), matrices.new_ones(matrices.shape[:-2], dtype=torch.bool)
    finite = matrices.isfinite().flatten(-2).all(-1)
    safe = torch.where(finite[..., None, None], matrices, torch.zeros_like(matrices))
    values, vectors = symmetric_eigen(safe)
    lowest = values.amin(-1, keepdim=True).clamp_(max=0.0)
    powers = (values - lowest + eps).pow(-exponent)
    roots = ((vectors * powers.unsqueeze(-2)) @ vectors.mT).to(matrices.dtype)
    return roots, finite & roots.isfinite().flatten(-2).all(-1)


def symmetric_eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in rising order and eigenvectors of finite symmetric matrices; in float64 if LAPACK gives up."""
    try:
        return torch.linalg.eigh(matrices)
    except LinAlgError:
        pass
    try:
        return torch.linalg.eigh(matrices.double())
    except LinAlgError:
        return _one_by_one(matrices.double())


def _one_by_one(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Those whose eigenvalues cannot be found become NaN, and do not take the others of their batch with them."""
    found = []
    for matrix in matrices.reshape(-1, *matrices.shape[-2:]):
        try:
            found.append(torch.linalg.eigh(matrix))
        except LinAlgError:
            found.append((torch.full_like(matrix[0], torch.nan), torch.full_like(matrix, torch.nan)))
    values, vectors = (torch.stack(parts) for parts in zip(*found, strict=True))
    return values.view(matrices.shape[:-1]), vectors.view(matrices.shape)
