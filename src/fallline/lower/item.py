"""One parameter as a program sees it: its operands in memory, and its place in the whole tensor if it is a piece.

A format is implemented by ``load`` and ``store`` of an operand; rules and lowerings do not depend on it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from fallline.formats import BlockFormat, stochastic_round
from fallline.rules.program import Program
from fallline.rules.space import Space

HALF = (torch.bfloat16, torch.float16)


def real_view(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of reals; lazy conjugation and negation are resolved first."""
    if not tensor.is_complex():
        return tensor.resolve_neg() if tensor.is_neg() else tensor
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def real_shape(tensor: Tensor) -> torch.Size:
    """The shape of a tensor as programs see it."""
    return torch.Size((*tensor.shape, 2)) if tensor.is_complex() else tensor.shape


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a piece lies in the tensor that it was cut from: at ``start`` along ``axis`` of ``shape``.

    Everything that depends on a position follows the whole tensor: shape facts, the blocks of low-bit formats, their
    dither, and random bits.  A piece therefore computes the same values as the whole tensor would.
    """

    shape: tuple[int, ...]
    """The shape of the whole tensor, as programs see it."""
    start: int = 0
    axis: int = 0

    @property
    def first(self) -> int:
        """The logical index, in the whole, of the piece's first element."""
        return self.start * prod(self.shape[self.axis + 1 :])

    @property
    def is_range(self) -> bool:
        """Whether the piece's elements follow each other in the whole's logical order."""
        return prod(self.shape[: self.axis]) == 1

    def cuts(self, space: Space) -> bool:
        """Whether the piece has only some of the values that vary over ``space``."""
        axes = len(self.shape)
        if space == Space.FULL:
            return True
        if space == Space.DIM0:
            return self.axis == 0
        reduced = {Space.ROW: {axes - 1}, Space.COL: {axes - 2}, Space.BATCH: {axes - 1, axes - 2}}
        return space in reduced and self.axis not in reduced[space]


@dataclasses.dataclass(frozen=True, eq=False)
class Operand:
    """A full-size tensor in memory: dense, or codes with a scale per block.

    ``stochastic``: whether a 16-bit tensor is rounded at random when it is stored.  ``slot``: distinguishes its random
    bits from those of other operands.  ``lazy``: whether it is a view that torch conjugates or negates when it is read,
    so that its memory holds other values.  ``first``: the logical index of its first element in the whole tensor.
    """

    data: Tensor
    scale: Tensor | None = None
    format: BlockFormat | None = None
    stochastic: bool = False
    slot: int = 0
    lazy: bool = False
    first: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether storing a value is copying it."""
        return self.format is None and not self.stochastic and not self.lazy and not self.data.is_complex()

    def load(self, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        if self.format is not None:
            assert self.scale is not None
            return self.format.decode(self.data, self.scale, shape, self.first)
        if self.lazy:
            return real_view(self.data).to(dtype)
        return self.data if self.data.dtype == dtype else self.data.to(dtype)

    def store(self, value: Tensor, key: int) -> None:
        if self.format is not None:
            assert self.scale is not None
            codes, scale = self.format.encode(value, self.first)
            self.data.copy_(codes.view_as(self.data))
            self.scale.copy_(scale)
        elif self.data.is_complex():
            self.data.copy_(torch.view_as_complex(value.contiguous()))
        elif self.stochastic:
            self.data.copy_(stochastic_round(value, self.data.dtype, key, self.first))
        elif value is not self.data:
            self.data.copy_(value)


@dataclasses.dataclass(eq=False)
class Item:
    """One parameter, or a piece of one."""

    shape: torch.Size
    dtype: torch.dtype
    """The dtype of the arithmetic: float64 for float64 parameters, float32 otherwise."""
    param: Operand
    """The parameter, or its float32 master weights."""
    states: dict[str, Operand]
    """Full-size states."""
    small: dict[str, Tensor]
    """Reduced states."""
    low_precision_copy: Operand | None = None
    """The 16-bit parameter whose float32 master weights are the operand."""
    number: int = 0
    """The number of the parameter in the optimizer, a part of the key of its random bits."""
    place: Place | None = None
    """Its place in the whole tensor if it is a piece; None if it is whole."""
    counted: bool = True
    """Whether reductions count it; of equal copies in several processes, they count one."""

    @property
    def numel(self) -> int:
        return self.shape.numel()

    @property
    def first(self) -> int:
        """The logical index of its first element in the whole tensor."""
        return 0 if self.place is None else self.place.first

    @property
    def whole_shape(self) -> Sequence[int]:
        return self.shape if self.place is None else self.place.shape

    @functools.cached_property
    def facts(self) -> dict[str, float]:
        return shape_facts(self.whole_shape, self.dtype)

    def operand(self, program: Program, name: str) -> Operand:
        return self.param if name == program.param else self.states[name]

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.param, *self.states.values())

    @property
    def rounds_at_random(self) -> bool:
        return any(o.stochastic for o in self.operands)


def follow(master: Tensor, param: Tensor) -> None:
    """Takes over the weights that somebody else has set since the last step; others keep their precision."""
    given = param.detach()
    changed = (master.to(given.dtype) != given) & ~(master.isnan() & given.isnan())
    if bool(changed.any()):
        master.copy_(torch.where(changed, given.float(), master))


FACTS = ("numel", "rows", "cols", "batch", "size0", "row_length", "dtype_eps")


def shape_facts(shape: Sequence[int], dtype: torch.dtype) -> dict[str, float]:
    """The facts about a shape that equations may use.  The last two axes are those of matrices; ``size0`` is the
    length of the first axis, and ``row_length`` the number of elements for each index of it."""
    numel = prod(shape)
    rows = shape[-2] if len(shape) >= 2 else 1
    cols = shape[-1] if len(shape) >= 1 else 1
    size0 = shape[0] if len(shape) >= 1 else 1
    return {
        "numel": numel,
        "rows": rows,
        "cols": cols,
        "batch": prod(shape[:-2]),
        "size0": size0,
        "row_length": numel // size0 if size0 else 0,
        "dtype_eps": torch.finfo(dtype).eps,
    }


def program_view(program: Program, shape: Sequence[int]) -> tuple[int, int, int]:
    """(batch, rows, cols): how the program indexes the elements of this shape."""
    facts = shape_facts(shape, torch.float32)
    if program.view == "matrix":
        return int(facts["batch"]), int(facts["rows"]), int(facts["cols"])
    if program.view == "dim0":
        return 1, int(facts["size0"]), int(facts["row_length"])
    return 1, 1, int(facts["numel"])
