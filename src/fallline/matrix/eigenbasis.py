"""Bases of eigenvectors that follow a slowly changing matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from fallline.matrix.inverse_root import symmetric_eigen
from fallline.matrix.products import stacked_product


def eigenvectors(matrices: Tensor) -> Tensor:
    """Eigenvectors as columns, those of the largest eigenvalue first; the identity for a matrix that is not finite."""
    if not matrices.numel():
        return matrices.clone()
    _, vectors = symmetric_eigen(_finite_or_identity(matrices))
    return vectors.flip(-1).to(matrices.dtype)


def power_step(matrices: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """One step of power iteration of each ``basis`` of a stack towards the eigenvectors, and the order in which its
    columns are taken.

    Columns are sorted first, by the share of the matrix that they see, because QR keeps the span of the leading ones.
    A matrix that is not finite leaves its basis as it is.
    """
    images = stacked_product(_finite_or_identity(matrices), basis)
    order = (basis * images).sum(-2).argsort(dim=-1, descending=True, stable=True)
    columns = torch.gather(images, -1, order.unsqueeze(-2).expand_as(images))
    return _orthonormal(columns), order


def _orthonormal(columns: Tensor) -> Tensor:
    """Q of the QR decomposition; torch.linalg.qr would copy R out as well."""
    if columns.is_meta:  # torch.geqrf has no form that only counts memory
        reflectors = torch.empty_like(columns), columns.new_empty(columns.shape[:-1])
    else:
        reflectors = torch.geqrf(columns)
    return torch.linalg.householder_product(*reflectors)


def _finite_or_identity(matrices: Tensor) -> Tensor:
    finite = matrices.isfinite().flatten(-2).all(-1)[..., None, None]
    if bool(finite.all()):
        return matrices
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    return torch.where(finite, matrices, identity)
