r"""Orthogonalisation by products alone: five odd polynomials that push all singular values towards 1.

With :math:`X = U S V^\top` and :math:`p(x) = a x + b x^3 + c x^5`, one step is
:math:`X \leftarrow a X + (b A + c A^2) X,\; A = X X^\top`, that is :math:`S \leftarrow p(S)`.  The *loop* does this
on X.  The *Gram form* does it on :math:`R = X X^\top`, which is smaller where X is not square: each step multiplies X
by :math:`P = a I + b R + c R^2`, so it collects :math:`Q = \prod P`, replaces R by :math:`P R P` and multiplies X once,
at the end.  All its factors are polynomials of one symmetric matrix: they commute, and their products are symmetric.

Small singular values of R are squares, which 16 bits do not hold: the Gram form needs float32, also where it starts
anew from X after every second polynomial (docs/matrix.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from fallline.matrix.batches import stacked, wide
from fallline.matrix.products import pieces, product, symmetric_polynomial, symmetric_product

Coefficients = tuple[tuple[float, float, float], ...]

KELLER_JORDAN: Coefficients = ((3.4445, -4.7750, 2.0315),)
"""KellerJordan/Muon and torch.optim.Muon: steepest at 0; singular values end between about .7 and 1.2, not at 1."""

CONVERGENT: Coefficients = ((3.0, -3.2, 1.2),)
"""p(1) = 1, so that more steps come closer to an orthogonal matrix."""

QUINTIC: Coefficients = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
"""timm's default set."""

POLAR_EXPRESS: Coefficients = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
"""The best five polynomials for singular values down to 1e-3 (dion); to be used with ``safety=1.02``."""

POLAR_EXPRESS_SAFETY = 1.02

HALF = (torch.bfloat16, torch.float16)

GRAM_FROM = 1.25
"""Columns per row from which the Gram form has fewer operations than the loop, halves of symmetric products counted."""


def newton_schulz(
    matrices: Tensor,
    *,
    coefficients: Coefficients = KELLER_JORDAN,
    steps: int = 5,
    eps: float = 1e-7,
    eps_place: Literal["clamp", "add"] = "clamp",
    safety: float = 1.0,
    dtype: torch.dtype = torch.float32,
    form: Literal["loop", "gram"] | None = None,
) -> Tensor:
    """Each matrix with its singular values moved towards 1, in ``dtype``.

    ``eps_place`` says how a norm of 0 is avoided: torch's max(‖X‖, eps) or the authors' ‖X‖ + eps.  A list of
    coefficients that is shorter than ``steps`` repeats its last entry.  ``form=None`` takes the cheaper one of the two
    that ``dtype`` allows.  A matrix with NaN or infinity gives NaN; zeros give zeros; one that is finite is scaled
    where its norm is not.
    """
    if form == "gram" and dtype in HALF:
        raise ValueError(f"form='gram' squares singular values, which {dtype} cannot hold; take float32 or form='loop'")
    if not 0 <= steps < 100:
        raise ValueError(f"steps must be at least 0 and below 100, got {steps}")
    schedule = [coefficients[min(step, len(coefficients) - 1)] for step in range(steps)]
    start = wide(stacked(matrices))
    # The norm is that of the rounded matrix, as in the authors' code, and the rounded matrix is never the caller's.
    start = start.to(dtype)
    norm = _norm(start)
    if not norm.is_meta and not bool(norm.isfinite().all()):
        start = _without_overflow(start, norm)
        norm = _norm(start)
    norm = norm.clamp(min=eps) if eps_place == "clamp" else norm.mul_(safety).add_(eps)
    if eps_place == "clamp" and safety != 1.0:
        norm.mul_(safety)
    start = torch.div(start, norm, out=torch.empty(start.shape, dtype=dtype, device=start.device))
    if not start.numel() or not steps:
        found = start
    else:
        if form is None:
            rectangular = start.shape[-1] >= GRAM_FROM * start.shape[-2]
            form = "gram" if rectangular and dtype in (torch.float32, torch.float64) else "loop"
        found = torch.empty_like(start)
        iterate = _gram if form == "gram" else _loop
        for x, out in pieces(start, found):
            result = iterate(x, schedule, out)
            if result is not out:
                out.copy_(result)
    return (found.mT if matrices.shape[-2] > matrices.shape[-1] else found).reshape(matrices.shape)


def _norm(matrices: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True)


def _without_overflow(matrices: Tensor, norm: Tensor) -> Tensor:
    """Finite matrices whose sum of squares is not (entries above 1e19 in float32) are divided by the largest entry."""
    largest = matrices.abs().amax(dim=(-2, -1), keepdim=True)
    return torch.where(norm.isinf() & largest.isfinite(), matrices / largest, matrices)


def _loop(x: Tensor, schedule: Sequence[tuple[float, float, float]], out: Tensor) -> Tensor:
    """The polynomials one after the other."""
    rows = x.shape[-2]
    gram = x.new_empty(*x.shape[:-2], rows, rows)
    update = torch.empty_like(gram)
    here, there = x, out
    for a, b, c in schedule:
        r = symmetric_product(here, here, gram)
        if x.dtype in HALF:
            # a is added to the matrix, not to the diagonal of the update, which would round it to 8 bits.
            symmetric_polynomial(0.0, b, c, r, update)
            found = torch.add(product(update, here, there), here, alpha=a, out=there)
        else:
            found = product(symmetric_polynomial(a, b, c, r, update), here, there)
        here, there = found, here
    return here


def _gram(x: Tensor, schedule: Sequence[tuple[float, float, float]], out: Tensor) -> Tensor:
    """The product of all polynomials of R = X Xᵀ, times X."""
    rows = x.shape[-2]
    r = x.new_empty(*x.shape[:-2], rows, rows)
    p, other, q = torch.empty_like(r), torch.empty_like(r), torch.empty_like(r)
    r = symmetric_product(x, x, r)
    last = len(schedule) - 1
    for step, (a, b, c) in enumerate(schedule):
        if step == 0:
            factor = q = symmetric_polynomial(a, b, c, r, q)
        else:
            factor = symmetric_polynomial(a, b, c, r, p)
            q, other = symmetric_product(q, factor, other), q
        if step < last:
            other = symmetric_product(r, factor, other)
            r = symmetric_product(other, factor, r)
    return product(q, x, out)
