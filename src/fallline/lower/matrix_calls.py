"""The matrix functions that rules call, on batches of parameters of one shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.matrix.coupled_newton import largest_eigenvalue
from fallline.matrix.eigenbasis import eigenvectors, power_step
from fallline.matrix.inverse_root import inverse_root
from fallline.matrix.newton_schulz import POLAR_EXPRESS, POLAR_EXPRESS_SAFETY, newton_schulz
from fallline.matrix.products import stacked_gram, stacked_product
from fallline.matrix.zolotarev import polar_factor
from fallline.rules.blocks import Block, Square, Squares

SCALES: dict[str, Callable[[int, int], float]] = {
    "none": lambda rows, cols: 1.0,
    "original": lambda rows, cols: math.sqrt(max(1.0, rows / max(cols, 1))),
    "match_rms_adamw": lambda rows, cols: 0.2 * math.sqrt(max(rows, cols)),
}
"""Factors of an orthogonal matrix, by its shape."""
SCALES["jordan"] = SCALES["original"]  # of the last two axes, which are those of a convolution's kernel


Changed = dict[str, Any]
"""New values of a function's arguments, by name."""
FUNCTIONS: dict[str, Callable[..., Changed]] = {}
"""By the name under which rules call them."""


def called(function: Callable[..., Changed]) -> Callable[..., Changed]:
    """Enters a function under its name, by which rules call it."""
    FUNCTIONS[function.__name__] = function
    return function


@dataclasses.dataclass(eq=False)
class Matrices:
    """The square matrices of a batch of parameters."""

    flat: Tensor
    """One row per parameter."""
    layout: Squares
    shape: tuple[int, ...]
    """The shape of each parameter."""
    numbers: Sequence[int]
    """The number of each parameter in its optimizer, which decides when it is its turn."""
    outcomes: Tensor | None = None
    """The outcome for each matrix of each parameter in a call that may fail: 1 if it succeeded, −1 if it failed, 0 if
    it was not its turn."""

    @functools.cached_property
    def blocks(self) -> list[Block]:
        return self.layout.blocks(self.shape)

    def merged(self, value: Tensor) -> Tensor:
        """A value per element of the batch, in the shape that is cut into blocks."""
        return value.reshape(len(value), *self.layout.merged(self.shape))

    @functools.cached_property
    def squares(self) -> list[tuple[Block, Square]]:
        return [(block, square) for block in self.blocks for square in block.squares]

    def of(self, square: Square) -> Tensor:
        """One matrix of every parameter, as a view."""
        return self.flat[:, square.first : square.first + square.dim**2].view(-1, square.dim, square.dim)

    def due(self, index: int, turn: float, every: float) -> list[int]:
        """The parameters of which it is the turn of the matrix of this index."""
        return [k for k, number in enumerate(self.numbers) if is_due(number, index, turn, every)]

    def picked(self, members: Sequence[int]) -> Matrices:
        """Those of some parameters: themselves if it is all of them, else a copy."""
        if len(members) == len(self.numbers):
            return self
        return Matrices(self.flat[list(members)], self.layout, self.shape, [self.numbers[k] for k in members])


GOLDEN = (math.sqrt(5) - 1) / 2
SECOND = 0.5698402909980532
"""Multiples of irrational numbers fill a period evenly, however many there are."""


def is_due(number: int, index: int, turn: float, every: float) -> bool:
    """Whether it is the turn of a parameter's matrix, once in ``every`` turns.  It follows from numbers that all
    processes know, so that each of them finds the same."""
    return every <= 1 or (turn + _offset(number, index, every)) % every == 0


def _offset(number: int, index: int, every: float) -> int:
    return math.floor(every * ((number * GOLDEN + index * SECOND) % 1.0))


def turns(states: Sequence[Matrices], turn: float, every: float) -> Iterator[tuple[Hashable, float]]:
    """The turns in which some of these matrices are due, each with those that are."""
    if every <= 1:
        yield None, turn
        return
    indices = range(max(len(matrices.squares) for matrices in states))
    due: dict[float, list[tuple[int, int]]] = {}
    for k, number in enumerate(states[0].numbers):
        for index in indices:
            due.setdefault(-_offset(number, index, every) % every, []).append((k, index))
    for at, those in due.items():
        yield tuple(those), at


@called
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
    dtype: str = "float32",
) -> Changed:
    """The orthogonal factor of each matrix, times a factor that depends on the matrix's shape.

    A parameter of more than two axes is one matrix, its first axis against the others (filters of convolutions), or,
    if it is ``stacked``, as many matrices as its leading axes have elements (experts).  ``split_sizes`` cuts the rows
    of a matrix into several (fused queries, keys and values), and ``num_heads`` each of these into equal ones.
    ``dtype="bfloat16"`` multiplies in 16 bits, and "float32" in the parameter's own dtype.
    """
    within = torch.bfloat16 if dtype == "bfloat16" else x.dtype
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
                dtype=within,
            )
        else:
            whole = newton_schulz(
                heads,
                coefficients=(coefficients,),
                steps=steps,
                eps=eps,
                eps_place="add" if adds_eps else "clamp",
                dtype=within,
            )
        whole = whole.to(x.dtype)
        rows, cols = x.shape[-2:] if scale == "jordan" else heads.shape[-2:]
        whole.mul_(SCALES[scale](rows, cols))
        found.append(whole.view(part.shape))
    return {"x": (torch.cat(found, dim=1) if len(found) > 1 else found[0]).view(x.shape)}


@called
def accumulate(g: Tensor, factors: Matrices, *, decay: float, weight: float) -> Changed:
    whole = factors.merged(g)
    for block in factors.blocks:
        where = (slice(None), *block.slices)
        part = whole[where]
        for square in block.squares:
            _add_gram(factors.of(square), _unfolded(part, square.axis), decay, weight)
    return {"factors": factors}


def _unfolded(part: Tensor, axis: int) -> Tensor:
    return part.movedim(axis + 1, 1).reshape(len(part), part.shape[axis + 1], -1)


def _add_gram(factor: Tensor, x: Tensor, decay: float, weight: float) -> None:
    """factor ← decay · factor + weight · X Xᵀ; a decay of 0 forgets what was there, NaN as well."""
    gram = stacked_gram(x)
    if decay == 0.0:
        torch.mul(gram, weight, out=factor)
    else:
        factor.mul_(decay).add_(gram, alpha=weight)


ROWS, COLUMNS = 0, 1


@called
def accumulate_adaptive(
    g: Tensor,
    factors: Matrices,
    previous: Matrices,
    roots: Matrices,
    *,
    decay: float,
    weight: float,
    eps: float,
    begins: float,
    renewed: float,
    turn: float,
    every: float,
) -> Changed:
    """L is over the inputs of a layer, the columns of torch's matrices, as rows are in the authors' JAX."""
    whole = factors.merged(g)
    for place, (block, kept) in enumerate(zip(factors.blocks, previous.blocks, strict=True)):
        right, left = (factors.of(block.squares[axis]) for axis in (ROWS, COLUMNS))
        root = roots.of(block.squares[COLUMNS])
        old = previous.of(kept.squares[0])
        if begins:
            _set_diagonal(left, eps)
            _set_diagonal(old, eps)
            for value in (right, root, roots.of(block.squares[ROWS])):
                _set_diagonal(value, 1.0)
        where = (slice(None), *block.slices)
        part = whole[where]
        size = left.shape[-1]
        factor: Tensor | float = decay
        members = factors.due(place, turn, every) if renewed else []
        if members:
            own, own_root = old[members], root[members]
            damped = own + (eps * largest_eigenvalue(own))[:, None, None] * torch.eye(size).to(own)
            trace = (own_root * stacked_product(damped, own_root)).sum((-2, -1))
            factor = torch.full_like(old[:, :1, :1], decay)
            factor[members] *= (trace.clamp(min=0.0) / size)[:, None, None]
            old[members] = left[members]
        _add_gram(left, part.mT, decay, weight)
        preconditioned = stacked_product(part, root)
        right.mul_(factor).add_(stacked_gram(preconditioned), alpha=weight / size)
    return {"factors": factors, "previous": previous, "roots": roots}


def _set_diagonal(matrices: Tensor, value: float) -> None:
    matrices.zero_().diagonal(dim1=-2, dim2=-1).fill_(value)


@called
def precondition(x: Tensor, roots: Matrices, *, like: Tensor | None = None) -> Changed:
    whole, result = roots.merged(x), torch.empty_like(roots.merged(x))
    for block in roots.blocks:
        where = (slice(None), *block.slices)
        part = _along_axes(whole[where], roots, block)
        if like is not None:
            wanted, own = (_norms(value) for value in (roots.merged(like)[where], part))
            part = part * (wanted / (own + TINY))
        result[where] = part
    return {"x": result.view(x.shape) if roots.blocks else x}


TINY = 1e-16
"""Added to a norm that is divided by, as Distributed Shampoo does."""


def _norms(value: Tensor) -> Tensor:
    axes = tuple(range(1, value.ndim))
    return torch.linalg.vector_norm(value, dim=axes, keepdim=True)


def _along_axes(value: Tensor, matrices: Matrices, block: Block, *, transposed: bool = False) -> Tensor:
    """A block multiplied, along every axis that has one, by the matrix of that axis."""
    count = len(value)
    for square in block.squares:
        matrix = matrices.of(square)
        shape = value.shape
        if square.axis == value.ndim - 2:  # the rows times the transposed matrix, without moving axes
            rows = value.reshape(count, -1, square.dim)
            value = stacked_product(rows, matrix if transposed else matrix.mT).view(shape)
        else:
            moved = value.movedim(square.axis + 1, 1)
            product = stacked_product(matrix.mT if transposed else matrix, moved.reshape(count, square.dim, -1))
            value = product.view(moved.shape).movedim(1, square.axis + 1)
    return value


@called
def project(x: Tensor, basis: Matrices, *, back: bool) -> Changed:
    whole, result = basis.merged(x), torch.empty_like(basis.merged(x))
    for block in basis.blocks:
        where = (slice(None), *block.slices)
        result[where] = _along_axes(whole[where], basis, block, transposed=not back)
    return {"x": result.view(x.shape) if basis.blocks else x}


@called
def inverse_roots(
    roots: Matrices,
    factors: Matrices,
    *,
    scale: float,
    eps: float,
    turn: float,
    every: float,
    exponent: float | None = None,
    by_block: bool = False,
    **method: Any,
) -> Changed:
    outcomes = torch.zeros(len(factors.numbers), len(factors.squares), dtype=torch.int8)
    places = {id(block): place for place, block in enumerate(factors.blocks)}
    for index, (block, square) in enumerate(factors.squares):
        members = factors.due(places[id(block)] if by_block else index, turn, every)
        if not members:
            continue
        matrix = factors.of(square)[members] * scale
        found, good = inverse_root(matrix, exponent or 1 / (2 * len(block.shape)), eps, **method)
        target = roots.of(square)
        target[members] = torch.where(good[:, None, None], found, target[members])
        outcomes[members, index] = torch.where(good, 1, -1).to(torch.int8).cpu()
    roots.outcomes = outcomes
    return {"roots": roots}


@called
def eigenbasis(basis: Matrices, factors: Matrices) -> Changed:
    for _, square in factors.squares:
        basis.of(square).copy_(eigenvectors(factors.of(square)))
    return {"basis": basis}


@called
def turn_basis(
    first_moment: Tensor, second_moment: Tensor, basis: Matrices, factors: Matrices, *, turn: float, every: float
) -> Changed:
    due = [set(factors.due(index, turn, every)) for index in range(len(factors.squares))]
    members = sorted(set().union(*due))
    if not members:
        return {}
    own, of_factors = basis.picked(members), factors.picked(members)
    plain = project(first_moment[members], own, back=True)["x"]
    moments = own.merged(second_moment[members])  # a copy
    for index, (block, square) in enumerate(own.squares):
        chosen = [k for k, member in enumerate(members) if member in due[index]]
        if not chosen:
            continue
        picked = slice(None) if len(chosen) == len(members) else chosen
        turned, order = power_step(of_factors.of(square)[picked], own.of(square)[picked])
        own.of(square)[picked] = turned
        where = (slice(None), *block.slices)
        part = moments[where]
        own_part = part[picked]
        places = order.view(len(order), *(-1 if axis == square.axis else 1 for axis in range(part.ndim - 1)))
        part[picked] = torch.gather(own_part, square.axis + 1, places.expand(own_part.shape))
    if own is not basis:
        basis.flat[members] = own.flat
    first, second = first_moment.clone(), second_moment.clone()
    first[members] = project(plain, own, back=False)["x"]
    second[members] = moments.view(len(members), *second_moment.shape[1:])
    return {"basis": basis, "first_moment": first, "second_moment": second}
