"""The tensors that a parameter's state consists of: their keys, formats and sizes.

Parameters may be on ``meta`` or fake, because only their shapes and dtypes are read.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from fallline.formats import BlockFormat
from fallline.lower.item import HALF
from fallline.optim.states import MASTER, Piece, code_key, reduced_shape, scale_key, state_format
from fallline.rules.program import Program


@dataclasses.dataclass(frozen=True)
class Stored:
    """One tensor in the state of a parameter."""

    key: str
    """The key in the state of the parameter, ``exp_avg:int8``."""
    state: str
    """The state of the rule that it is a part of, ``exp_avg``; ``master`` for master weights."""
    format: str
    """The format of that state, ``int8``; scales have the format of their codes."""
    shape: tuple[int, ...]
    """The shape in real numbers; a complex number counts as two."""
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def on_meta(self) -> Tensor:
        """A tensor of this size without memory."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")


def stored(program: Program, param: Tensor, state_dtype: str = "float32", master_weights: bool = False) -> list[Stored]:
    """The state of one parameter, without the tensors that all parameters share (counters and other single numbers).

    >>> from fallline.memory.per_parameter import program_of
    >>> for one in stored(program_of("adamw"), torch.empty(100, 50, device="meta"), "int8"):
    ...     print(one.key, one.shape, one.bytes)
    exp_avg:int8 (100, 50) 5000
    exp_avg:scale (20,) 80
    exp_avg_sq:int8 (100, 50) 5000
    exp_avg_sq:scale (20,) 80
    """
    found: list[Stored] = []
    piece = Piece(param)
    shape, computed = tuple(piece.shape), piece.dtype
    for name, state in program.states.items():
        if state.is_scalar:
            continue
        if state.shape is not None:
            found.append(Stored(name, name, dtype_name(computed), tuple(reduced_shape(state, shape)), computed))
            continue
        format = state_format(state, state_dtype, piece)
        if isinstance(format, BlockFormat):
            codes, scale = format.code_shape(shape), format.scale_shape(shape)
            found.append(Stored(code_key(name, format), name, format.name, codes, format.code_dtype))
            found.append(Stored(scale_key(name), name, format.name, scale, torch.float32))
        else:
            found.append(Stored(name, name, dtype_name(format), shape, format))
    if master_weights and param.dtype in HALF:
        found.append(Stored(MASTER, MASTER, "float32", shape, torch.float32))
    return found


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
