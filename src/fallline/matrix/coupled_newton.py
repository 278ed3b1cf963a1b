r"""Inverse roots by products alone: Newton's iteration on the root and on what is left of the matrix.

With :math:`\alpha = -1/p`, a ridge that is relative to the largest eigenvalue, :math:`M = zA` and
:math:`H = z^{1/p} I`, each step takes :math:`T = (1-\alpha) I + \alpha M`, :math:`M \leftarrow T^p M`,
:math:`H \leftarrow H T`, until M is the identity.  It is what
CASPR's authors use.  On CPUs eigenvalues are faster and nearer (`inverse_root.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

ITERATIONS = 100
TOLERANCE = 1e-6
GROWTH = 1.2
"""An error that grows by more than this factor ends the iteration: the value before is the best there is."""


def coupled_newton(matrices: Tensor, power: int, ridge: float) -> tuple[Tensor, Tensor]:
    """``(A + ridge·λmax·1)^(−1/power)`` of each symmetric matrix A, and the largest error of each product T^p M − 1.

    A matrix that is not finite has a root and an error that are NaN.
    """
    if not matrices.numel():
        return matrices.clone(), matrices.new_zeros(matrices.shape[:-2])
    size = matrices.shape[-1]
    identity = torch.eye(size, dtype=matrices.dtype, device=matrices.device)
    # The scale keeps powers in the range of float32.
    scale = (matrices.diagonal(dim1=-2, dim2=-1).mean(-1) + 1e-30)[..., None, None]
    damped = matrices / scale
    damped = damped + (ridge * largest_eigenvalue(damped).clamp(min=1e-16))[..., None, None] * identity
    start = (1 + power) / (2 * torch.linalg.matrix_norm(damped))[..., None, None]
    left, root = damped * start, identity * start ** (1 / power)
    error = _distance(left, identity)
    active = torch.ones_like(error, dtype=torch.bool)
    for _ in range(ITERATIONS if not matrices.is_meta else 2):  # without values there is only memory to be seen
        active = active & (error > TOLERANCE)
        if not bool(active.any()):
            break
        step = (1 + 1 / power) * identity - left / power
        new_left = torch.linalg.matrix_power(step, power) @ left
        new_error = _distance(new_left, identity)
        better = active & (new_error <= error * GROWTH)
        left = torch.where(better[..., None, None], new_left, left)
        root = torch.where(better[..., None, None], root @ step, root)
        error = torch.where(better, new_error, error)
        active = better
    return root * scale ** (-1 / power), error


def largest_eigenvalue(matrices: Tensor, steps: int = 100) -> Tensor:
    """The largest eigenvalue of each positive matrix, by power iteration; NaN where one is not finite."""
    found = matrices.new_zeros(matrices.shape[:-2])
    # A start that is orthogonal to no vector in sight, and the same in every run.
    vector = torch.sin(torch.arange(1, matrices.shape[-1] + 1, dtype=matrices.dtype, device=matrices.device))
    vector = vector.expand(matrices.shape[:-1])
    for _ in range(steps):
        vector = vector / torch.linalg.vector_norm(vector, dim=-1, keepdim=True).clamp(min=1e-30)
        image = (matrices @ vector.unsqueeze(-1)).squeeze(-1)
        value = (vector * image).sum(-1)
        settled = bool(((value - found).abs() <= TOLERANCE * value.abs()).all())
        found, vector = value, image
        if settled:
            break
    return found


def _distance(matrices: Tensor, identity: Tensor) -> Tensor:
    return (matrices - identity).abs().amax(dim=(-2, -1))
