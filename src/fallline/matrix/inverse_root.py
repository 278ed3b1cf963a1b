"""Inverse roots of symmetric matrices, and whether each could be computed.

A root that fails in float32 is computed once more in float64.  Who calls decides what a second failure means.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from fallline.matrix.coupled_newton import coupled_newton

METHODS = ("eigh", "newton")


def inverse_root(
    matrices: Tensor,
    exponent: float,
    eps: float,
    *,
    relative: bool = False,
    method: str = "eigh",
    tolerance: float = 0.1,
) -> tuple[Tensor, Tensor]:
    """``(A + eps·1)^(−exponent)`` of each symmetric matrix A, and whether each could be computed.

    ``relative``: eps counts in largest eigenvalues.  ``method``: "eigh", by eigenvalues, is faster on CPUs and nearer;
    "newton" iterates, needs ``relative`` and an exponent that is one over a whole number, and fails where its error is
    above ``tolerance``.  A matrix that is not finite counts as failed, and so does one whose root is not.
    """
    if not matrices.numel():
        return matrices.clone(), matrices.new_ones(matrices.shape[:-2], dtype=torch.bool)
    finite = matrices.isfinite().flatten(-2).all(-1)
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    safe = matrices if bool(finite.all()) else torch.where(finite[..., None, None], matrices, identity)
    if method == "newton":
        found, good = _by_newton(safe, exponent, eps, relative, tolerance)
    else:
        found, good = _by_eigenvalues(safe, exponent, eps, relative), finite
    good = finite & good & found.isfinite().flatten(-2).all(-1)
    return found, good


def _by_eigenvalues(matrices: Tensor, exponent: float, eps: float, relative: bool) -> Tensor:
    """Rounding may give a positive matrix negative eigenvalues: all are then raised by as much as the lowest is below
    0, as Distributed Shampoo does."""
    values, vectors = symmetric_eigen(matrices)
    values = values - values.amin(-1, keepdim=True).clamp_(max=0.0)
    ridge = eps * values.amax(-1, keepdim=True) if relative else eps
    powers = (values + ridge).pow(-exponent)
    return ((vectors * powers.unsqueeze(-2)) @ vectors.mT).to(matrices.dtype)


def _by_newton(
    matrices: Tensor, exponent: float, eps: float, relative: bool, tolerance: float
) -> tuple[Tensor, Tensor]:
    power = round(1 / exponent)
    if not relative or abs(power * exponent - 1) > 1e-9:
        raise ValueError(
            f"method='newton' needs relative=True and an exponent of 1/2, 1/4, …; got relative={relative}, {exponent}"
        )
    found, error = coupled_newton(matrices, power, eps)
    good = error <= tolerance  # False for NaN
    if not bool(good.all()) and matrices.dtype != torch.float64:
        again, error = coupled_newton(matrices[~good].double(), power, eps)
        found, good = found.clone(), good.clone()
        found[~good], good[~good] = again.to(found.dtype), error <= tolerance
    return found, good


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
