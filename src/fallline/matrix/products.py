"""Products of matrices; of a product that is symmetric, a large one computes only half.

Results may lie in new memory, because oneDNN's product, as torch offers it, always makes its own: use what a function
returns, and give ``out`` as memory that it may use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

LARGE = 384
"""Rows from which a matrix is large: below, computing half of a symmetric product takes longer than all of it."""

BLOCK = 192
"""Rows of the result that are computed at once: few enough to skip most of the lower half, enough to be fast."""

SMALLEST = 96
"""Rows and columns from which oneDNN's product is faster than its preparation takes."""

HERE = ("cpu", "meta")
"""The devices of tensors that this processor multiplies, or would: those without memory show how much it takes."""


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    if _takes_onednn(left, right):
        return _onednn(left, right)
    return torch.mm(left, right, out=out) if left.dim() == 2 else torch.bmm(left, right, out=out)


def symmetric_product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """left · rightᵀ where the result is known to be symmetric: X · Xᵀ, or symmetric factors that commute."""
    rows = left.shape[-2]
    if left.dim() > 2 or rows < LARGE:
        return product(left, right.mT, out)
    direct = not _takes_onednn(left, right)
    for start in range(0, rows, BLOCK):
        end = min(start + BLOCK, rows)
        if direct:
            torch.mm(left[start:end], right[start:].T, out=out[start:end, start:])
        else:
            out[start:end, start:] = product(left[start:end], right[start:].T)
        out[end:, start:end] = out[start:end, end:].T
    return out


def symmetric_polynomial(a: float, b: float, c: float, matrix: Tensor, out: Tensor) -> Tensor:
    """a I + b A + c A² of a symmetric A."""
    rows = matrix.shape[-2]
    if _takes_onednn(matrix, matrix):
        step = BLOCK if rows >= LARGE else rows
        for start in range(0, rows, step):
            end = min(start + step, rows)
            # The columns of a symmetric matrix are its rows, which lie together in memory.
            square = product(matrix[start:end], matrix[start:].T)
            torch.add(square.mul_(c), matrix[start:end, start:], alpha=b, out=out[start:end, start:])
            out[end:, start:end] = out[start:end, end:].T
    elif matrix.dim() > 2 or rows < LARGE:
        multiply = torch.addmm if matrix.dim() == 2 else torch.baddbmm
        multiply(matrix, matrix, matrix, beta=b, alpha=c, out=out)
    else:
        for start in range(0, rows, BLOCK):
            end = min(start + BLOCK, rows)
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


def stacked_product(left: Tensor, right: Tensor) -> Tensor:
    """The products of two stacks of matrices."""
    found = [product(*pair) for pair in pieces(left, right)]
    if len(found) == 1:
        return found[0] if found[0].dim() == 3 else found[0].unsqueeze(0)
    return torch.stack(found) if found else torch.bmm(left, right)


def stacked_gram(matrices: Tensor) -> Tensor:
    """X · Xᵀ of each matrix of a stack."""
    found = matrices.new_empty(*matrices.shape[:-1], matrices.shape[-2])
    for x, out in pieces(matrices, found):
        result = symmetric_product(x, x, out)
        if result is not out:
            out.copy_(result)
    return found


def pieces(batch: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Stacks of matrices, cut alike: the whole stack where matrices are small, because a call for each would cost more
    than its arithmetic, else one matrix after the other.  A product may then write into a part of a matrix without a
    copy, and temporaries are those of one matrix."""
    smallest = SMALLEST if batch.dtype == torch.float32 and batch.device.type in HERE and uses_onednn() else LARGE
    if batch.shape[0] != 1 and min(batch.shape[-2:]) < smallest:
        yield batch, *others
    else:
        for i in range(batch.shape[0]):
            yield batch[i], *(other[i] for other in others)


def _takes_onednn(left: Tensor, right: Tensor) -> bool:
    return (
        left.dim() == 2
        and left.dtype == torch.float32
        and left.device.type in HERE
        and min(left.shape[0], left.shape[1], *right.shape) >= SMALLEST
        and uses_onednn()
    )


def _onednn(left: Tensor, right: Tensor) -> Tensor:
    rows, columns = _dense(left), _dense(right.T)
    if left.is_meta:
        return rows.new_empty(len(rows), len(columns))
    linear: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise
    return linear(rows, columns, None, "none", [None], "")


def _dense(matrix: Tensor) -> Tensor:
    """The matrix without gaps between its rows, or columns: with gaps oneDNN takes a reference implementation, which
    is a thousand times slower."""
    return matrix if matrix.is_contiguous() or matrix.T.is_contiguous() else matrix.contiguous()


@functools.cache
def uses_onednn() -> bool:
    """Whether products go to oneDNN instead of MKL, which uses half of the vectors of AVX-512 on processors that are
    not Intel's: on Zen 5 oneDNN is 2.2 times as fast.  Facts of the machine decide, not a measurement, so that a run
    repeats exactly."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():
        return False
    return _vendor() not in ("", "GenuineIntel") and _works()


def _vendor() -> str:
    """The processor's maker as Linux names it; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "vendor_id"), "")


def _works() -> bool:
    """Tries torch's function, which is not a documented one, on a product that is known."""
    left = torch.arange(6.0).view(2, 3)
    try:
        return bool(torch.equal(_onednn(left, left.T), left @ left.T))
    except (AttributeError, RuntimeError, TypeError):
        return False
