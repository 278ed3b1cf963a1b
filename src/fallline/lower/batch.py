"""What every lowering is given: parameters with their operands, and this step's numbers.

A format lives in an operand's ``load`` and ``store``; rules and lowerings know nothing of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fallline.formats import BlockFormat, stochastic_round
from fallline.rules.program import Program

HALF = (torch.bfloat16, torch.float16)


def real_view(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of reals; what is lazily conjugated or negated is resolved first."""
    if not tensor.is_complex():
        return tensor.resolve_neg() if tensor.is_neg() else tensor
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def real_shape(tensor: Tensor) -> torch.Size:
    """The shape that programs see of a tensor."""
    return torch.Size((*tensor.shape, 2)) if tensor.is_complex() else tensor.shape


@dataclasses.dataclass(frozen=True, eq=False)
class Operand:
    """A full-size tensor in memory: dense, or codes with a scale per block.  ``stochastic``: how to round
    when a 16-bit tensor is stored; ``slot`` keeps its random bits apart from those of other operands.
    ``lazy``: a view that torch conjugates or negates when it is read, so its memory holds other values."""

    data: Tensor
    scale: Tensor | None = None
    format: BlockFormat | None = None
    stochastic: bool = False
    slot: int = 0
    lazy: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether storing a value is copying it."""
        return self.format is None and not self.stochastic and not self.lazy and not self.data.is_complex()

    def load(self, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        if self.format is not None:
            assert self.scale is not None
            return self.format.decode(self.data, self.scale, shape)
        if self.lazy:
            return real_view(self.data).to(dtype)
        return self.data if self.data.dtype == dtype else self.data.to(dtype)

    def store(self, value: Tensor, key: int) -> None:
        if self.format is not None:
            assert self.scale is not None
            codes, scale = self.format.encode(value)
            self.data.copy_(codes.view_as(self.data))
            self.scale.copy_(scale)
        elif self.data.is_complex():
            self.data.copy_(torch.view_as_complex(value.contiguous()))
        elif self.stochastic:
            self.data.copy_(stochastic_round(value, self.data.dtype, key))
        elif value is not self.data:
            self.data.copy_(value)


@dataclasses.dataclass(eq=False)
class Item:
    """One parameter, as a program sees it."""

    shape: torch.Size
    dtype: torch.dtype
    """What is computed in: float64 for float64 parameters, float32 otherwise."""
    param: Operand
    """The parameter, or its float32 master weights."""
    states: dict[str, Operand]
    """Full-size states."""
    small: dict[str, Tensor]
    """Reduced states."""
    echo: Operand | None = None
    """The 16-bit parameter whose float32 master weights are the operand."""
    number: int = 0
    """Which parameter of the optimizer this is: part of the key of its random bits."""

    @property
    def numel(self) -> int:
        return self.shape.numel()

    def operand(self, program: Program, name: str) -> Operand:
        return self.param if name == program.param else self.states[name]

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.param, *self.states.values())

    @property
    def rounds_at_random(self) -> bool:
        return any(o.stochastic for o in self.operands)


@dataclasses.dataclass(eq=False)
class StepNumbers:
    """The numbers of one step: ``rows[row_of[i]]`` are the scalars of item i."""

    rows: Sequence[tuple[float, ...]]
    row_of: Sequence[int]
    grad_factor: float = 1.0
    keys: Sequence[Mapping[int, int]] | None = None
    """Per item, slot → key of its random bits; only where something rounds at random."""

    def key(self, item: int, slot: int) -> int:
        """Of what rounds at random; 0 for the rest."""
        return self.keys[item].get(slot, 0) if self.keys is not None else 0


def shape_facts(shape: Sequence[int], dtype: torch.dtype) -> dict[str, float]:
    """What the equations may ask of a shape.  Matrices are the last two axes, ``lead`` the first."""
    numel = 1
    for size in shape:
        numel *= size
    rows = shape[-2] if len(shape) >= 2 else 1
    cols = shape[-1] if len(shape) >= 1 else 1
    lead = shape[0] if len(shape) >= 1 else 1
    return {
        "numel": numel,
        "rows": rows,
        "cols": cols,
        "batch": numel // (rows * cols) if rows * cols else 0,
        "lead": lead,
        "lead_length": numel // lead if lead else 0,
        "dtype_eps": torch.finfo(dtype).eps,
    }


def program_view(program: Program, shape: Sequence[int]) -> tuple[int, int, int]:
    """(batch, rows, cols): how the program indexes the elements of this shape."""
    facts = shape_facts(shape, torch.float32)
    if program.view == "matrix":
        return int(facts["batch"]), int(facts["rows"]), int(facts["cols"])
    if program.view == "lead":
        return 1, int(facts["lead"]), int(facts["lead_length"])
    return 1, 1, int(facts["numel"])
