"""Bytes per parameter of an optimizer on large tensors: those of its states, and those that its step moves."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from fallline.formats import MIN_ELEMENTS, BlockFormat
from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.registry import find
from fallline.optim.states import Piece, state_format
from fallline.rules.annotations import State
from fallline.rules.blocks import Squares
from fallline.rules.program import Program

WIDTHS = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "float64": 8.0}
AS_PARAMETERS = "as parameters"
"""The format of packages that keep every state in the dtype of its parameter."""


@dataclasses.dataclass(frozen=True)
class Bytes:
    """The bytes of one parameter."""

    moved: float
    """Read and written by a step that makes as many passes over memory as the equations need."""
    once: float
    """Read and written by a step whose later passes find everything in a cache; no step moves less."""
    states: float
    """Held between steps."""


def program_of(name: str, **options: Any) -> Program:
    """The program that steps a matrix, by the registry name of its optimizer."""
    described = find(name)
    values = {n: v for n, v in described.settings(options).items() if n not in GROUP_OPTIONS}
    return described.rule.program(described.rule.trace_for(described.expand(values), 2))


def bytes_of(program: Program, dtype: str = "float32", state_dtype: str = "float32") -> Bytes:
    """The bytes that a step moves and keeps, for large tensors of this dtype with states in this format.

    Square matrices (``square_bytes``), and the work of matrix functions on them, depend on shapes and are not counted.
    """
    sizes = {n: state_width(s, dtype, state_dtype) for n, s in program.states.items() if s.shape is None}
    moved = once = 0.0
    for part in program.parts:
        scratch = {name: WIDTHS["float32"] for name in part.operands}
        widths = {**scratch, program.param: WIDTHS[dtype], program.grad: WIDTHS[dtype], **sizes}
        read = [{n.attr for n in part.pass_nodes(k) if n.op == "operand"} for k in range(len(part.reductions) + 1)]
        written = sum(widths.get(n, 0.0) for n in part.writes)
        moved += written + sum(widths.get(n, 0.0) for names in read for n in names)
        once += written + sum(widths.get(n, 0.0) for n in set().union(*read))
    return Bytes(moved, once, sum(sizes.values()))


def square_bytes(program: Program, side: int) -> float:
    """The bytes of square matrices, per element of a parameter of ``side`` rows and columns."""
    squares = [state.shape for state in program.states.values() if isinstance(state.shape, Squares)]
    return sum(WIDTHS["float32"] * one.numel((side, side)) for one in squares) / side**2


def state_width(state: State, dtype: str, state_dtype: str) -> float:
    """The bytes per element of a full-size state, including its share of a block's scale."""
    if state_dtype == AS_PARAMETERS:
        return WIDTHS[dtype]
    large_enough = torch.empty(MIN_ELEMENTS, dtype=getattr(torch, dtype), device="meta")
    format = state_format(state, state_dtype, Piece(large_enough))
    return format.bytes_per_element if isinstance(format, BlockFormat) else float(format.itemsize)
