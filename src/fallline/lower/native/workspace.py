"""The memory that kernels keep for the results of reductions, from shapes alone: ``fl_plan`` of the engine, in Python.

It is no tensor, and stays from the first step to the last.  A rule over rows and columns (Adafactor) needs several
numbers for each of them, which is little beside a large matrix, and more than the parameter where matrices are as small
as the kernels of a convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod

from fallline.lower.item import program_view
from fallline.lower.native.slots import Slots
from fallline.rules.node import Node
from fallline.rules.program import Program
from fallline.rules.space import Space

FLAT_TILE, TILE_COLUMNS, TILE_ELEMENTS, LINE_FLOATS = 16384, 1024, 65536, 16
"""Those of engine.h."""
DOUBLE, FLOAT = 8, 4


def workspace_bytes(program: Program, shape: Sequence[int]) -> int:
    """The bytes for one parameter, up to a cache line by which the engine aligns the next one."""
    return sum(_bytes(part, shape) for part in program.parts)


def _bytes(program: Program, shape: Sequence[int]) -> int:
    vectors = _slots(program).vectors
    if not program.reductions and not vectors:
        return 0
    batch, rows, cols = program_view(program, shape)
    down, across = _tiles(rows, cols, tiled=program.view != "flat")
    sizes = {Space.ROW: batch * rows, Space.DIM0: batch * rows, Space.COL: batch * cols}
    floats = sum(-(-sizes.get(node.space, batch) // LINE_FLOATS) * LINE_FLOATS for node in vectors)
    partial = {"row": batch * rows * across, "column": batch * down * cols}
    partial["number"] = batch * down * across if prod(shape) else 0
    kinds = [[_kind(node) for node in level] for level in program.reductions]
    doubles = sum(size * max((one.count(kind) for one in kinds), default=0) for kind, size in partial.items())
    return FLOAT * floats + DOUBLE * doubles


def _tiles(rows: int, cols: int, *, tiled: bool) -> tuple[int, int]:
    """How many tiles of a matrix lie below and beside each other; each has results of its own."""
    width = TILE_COLUMNS if tiled else FLAT_TILE
    height = max(1, TILE_ELEMENTS // min(max(cols, 1), width)) if tiled else 1
    return -(-rows // height), -(-cols // width)


def _kind(node: Node) -> str:
    if node.space.is_scalar:
        return "number"
    return "column" if node.space == Space.COL else "row"


@functools.cache
def _slots(program: Program) -> Slots:
    return Slots(program)
