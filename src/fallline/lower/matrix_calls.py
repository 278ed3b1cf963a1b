"""The matrix functions that rules call, on batches of parameters of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.matrix.orthogonalize import METHODS

SCALES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, cols: math.sqrt(max(1.0, rows / cols)),
    "match_rms_adamw": lambda rows, cols: 0.2 * math.sqrt(max(rows, cols)),
}
"""Factors of an orthogonal matrix, by its shape."""
SCALES["jordan"] = SCALES["original"]  # of the last two axes, which are those of a convolution's kernel


def orthogonalize(
    batch: Tensor,
    *,
    method: str,
    scale: str,
    stacked: bool,
    split_sizes: Sequence[int] | None,
    num_heads: int,
    **settings: Any,
) -> Tensor:
    """The orthogonal factor of each matrix, times a factor that depends on the matrix's shape.

    A parameter of more than two axes is one matrix, its first axis against the others (filters of convolutions), or,
    if it is ``stacked``, as many matrices as its leading axes have elements (experts).  ``split_sizes`` cuts the rows
    of a matrix into several (fused queries, keys and values), and ``num_heads`` each of these into equal ones.
    """
    factor = METHODS[method]
    matrices = batch.flatten(0, -3) if stacked else batch.flatten(2)
    found = []
    for part in matrices.split(list(split_sizes), dim=1) if split_sizes else (matrices,):
        heads = part.reshape(-1, part.shape[1] // num_heads, part.shape[2]) if num_heads else part
        rows, cols = heads.shape[1:]
        whole = factor(heads, **settings)
        whole.mul_(SCALES[scale](*(batch.shape[-2:] if scale == "jordan" else (rows, cols))))
        found.append(whole.view(part.shape))
    return (torch.cat(found, dim=1) if len(found) > 1 else found[0]).view(batch.shape)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {"orthogonalize": orthogonalize}
"""By the name under which rules call them."""
