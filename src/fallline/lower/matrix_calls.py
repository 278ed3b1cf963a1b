"""The matrix functions that rules call, on batches of parameters of one shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.matrix.eigenbasis import eigenvectors, power_step
from fallline.matrix.inverse_root import inverse_root
from fallline.matrix.newton_schulz import POLAR_EXPRESS, POLAR_EXPRESS_SAFETY, newton_schulz
from fallline.matrix.zolotarev import polar_factor
from fallline.rules.blocks import Block, Square, Squares

SCALES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, cols: math.sqrt(max(1.0, rows / cols)),
    "match_rms_adamw": lambda rows, cols: 0.2 * math.sqrt(max(rows, cols)),
}
"""Factors of an orthogonal matrix, by its shape."""
SCALES["jordan"] = SCALES["original"]  # of the last two axes, which are those of a convolution's kernel


Changed = dict[str, Any]
"""New values of a function's arguments, by name."""


@dataclasses.dataclass(eq=False)
class Matrices:
    """The square matrices of a batch of parameters."""

    flat: Tensor
    """One row per parameter."""
    layout: Squares
    shape: tuple[int, ...]
    """The shape of each parameter."""

    @functools.cached_property
    def blocks(self) -> list[Block]:
        return self.layout.blocks(self.shape)

    def merged(self, value: Tensor) -> Tensor:
        """A value per element of the batch, in the shape that is cut into blocks."""
        return value.reshape(len(value), *self.layout.merged(self.shape))

    def of(self, square: Square) -> Tensor:
        """One matrix of every parameter, as a view."""
        return self.flat[:, square.first : square.first + square.dim**2].view(-1, square.dim, square.dim)


def orthogonalize(
    x: Tensor,
    *,
    method: str,
    scale: str,
    stacked: bool,
    split_sizes: Sequence[int] | None,
    num_heads: int,
    coefficients: tuple[float, float, float],
    steps: int,
    eps: float,
    adds_eps: bool,
) -> Changed:
    """The orthogonal factor of each matrix, times a factor that depends on the matrix's shape.

    A parameter of more than two axes is one matrix, its first axis against the others (filters of convolutions), or,
    if it is ``stacked``, as many matrices as its leading axes have elements (experts).  ``split_sizes`` cuts the rows
    of a matrix into several (fused queries, keys and values), and ``num_heads`` each of these into equal ones.
    """
    matrices = x.flatten(0, -3) if stacked else x.flatten(2)
    found = []
    for part in matrices.split(list(split_sizes), dim=1) if split_sizes else (matrices,):
        heads = part.reshape(-1, part.shape[1] // num_heads, part.shape[2]) if num_heads else part
        if method == "zolotarev":
            whole = polar_factor(heads, eps=eps)
        elif method == "polar_express":
            whole = newton_schulz(
                heads,
                coefficients=POLAR_EXPRESS,
                steps=steps,
                eps=eps,
                eps_place="add",
                safety=POLAR_EXPRESS_SAFETY,
                dtype=heads.dtype,
            )
        else:
            whole = newton_schulz(
                heads,
                coefficients=(coefficients,),
                steps=steps,
                eps=eps,
                eps_place="add" if adds_eps else "clamp",
                dtype=heads.dtype,
            )
        rows, cols = x.shape[-2:] if scale == "jordan" else heads.shape[-2:]
        whole.mul_(SCALES[scale](rows, cols))
        found.append(whole.view(part.shape))
    return {"x": (torch.cat(found, dim=1) if len(found) > 1 else found[0]).view(x.shape)}


def accumulate(g: Tensor, factors: Matrices, *, decay: float, weight: float) -> Changed:
    whole = factors.merged(g)
    for block in factors.blocks:
        where = (slice(None), *block.slices)
        part = whole[where]
        for square in block.squares:
            unfolded = part.movedim(square.axis + 1, 1).reshape(len(g), square.dim, -1)
            factors.of(square).baddbmm_(unfolded, unfolded.mT, beta=decay, alpha=weight)
    return {"factors": factors}


def precondition(x: Tensor, roots: Matrices, *, like: Tensor | None = None) -> Changed:
    whole, result = roots.merged(x), roots.merged(x).clone()
    for block in roots.blocks:
        where = (slice(None), *block.slices)
        part = _along_axes(whole[where], roots, block)
        if like is not None:
            wanted, own = (_norms(value) for value in (roots.merged(like)[where], part))
            part = part * (wanted / (own + TINY))
        result[where] = part
    return {"x": result.view(x.shape)}


TINY = 1e-16
"""Added to a norm that is divided by, as Distributed Shampoo does."""


def _norms(value: Tensor) -> Tensor:
    axes = tuple(range(1, value.ndim))
    return torch.linalg.vector_norm(value, dim=axes, keepdim=True)


def _along_axes(value: Tensor, matrices: Matrices, block: Block, *, transposed: bool = False) -> Tensor:
    """A block multiplied, along every axis that has one, by the matrix of that axis."""
    for square in block.squares:
        matrix = matrices.of(square)
        moved = value.movedim(square.axis + 1, 1)
        product = torch.bmm(matrix.mT if transposed else matrix, moved.reshape(len(value), square.dim, -1))
        value = product.view(moved.shape).movedim(1, square.axis + 1)
    return value


def project(x: Tensor, basis: Matrices, *, back: bool) -> Changed:
    whole = basis.merged(x)
    result = whole.clone()
    for block in basis.blocks:
        where = (slice(None), *block.slices)
        result[where] = _along_axes(whole[where], basis, block, transposed=not back)
    return {"x": result.view(x.shape)}


def inverse_roots(
    roots: Matrices, factors: Matrices, *, scale: float, eps: float, exponent: float | None = None
) -> Changed:
    for block in factors.blocks:
        for square in block.squares:
            matrix = factors.of(square) * scale
            found, good = inverse_root(matrix, exponent or 1 / (2 * len(block.shape)), eps)
            roots.of(square).copy_(torch.where(good[:, None, None], found, roots.of(square)))
    return {"roots": roots}


def eigenbasis(basis: Matrices, factors: Matrices) -> Changed:
    for block in factors.blocks:
        for square in block.squares:
            basis.of(square).copy_(eigenvectors(factors.of(square)))
    return {"basis": basis}


def turn_basis(first_moment: Tensor, second_moment: Tensor, basis: Matrices, factors: Matrices) -> Changed:
    plain = project(first_moment, basis, back=True)["x"]
    whole = basis.merged(second_moment)
    result = whole.clone()
    for block in basis.blocks:
        where = (slice(None), *block.slices)
        part = whole[where]
        for square in block.squares:
            turned, order = power_step(factors.of(square), basis.of(square))
            basis.of(square).copy_(turned)
            index = order.view(len(order), *(-1 if axis == square.axis else 1 for axis in range(part.ndim - 1)))
            part = torch.gather(part, square.axis + 1, index.expand(part.shape))
        result[where] = part
    turned_moment = project(plain, basis, back=False)["x"]
    return {"basis": basis, "first_moment": turned_moment, "second_moment": result.view(second_moment.shape)}


FUNCTIONS: dict[str, Callable[..., Changed]] = {
    function.__name__: function
    for function in (accumulate, eigenbasis, inverse_roots, orthogonalize, precondition, project, turn_basis)
}
"""By the name under which rules call them."""
