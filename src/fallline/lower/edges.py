"""Low-bit blocks that lie in two pieces of a tensor.

Blocks follow the whole tensor, wherever it is cut, so that its pieces store the codes of the whole.  Both pieces of a
block keep its scale, the largest magnitude over both.  This is a reduction that is joined after the last pass; the
values of such a block are encoded only then.  A piece has at most two such blocks, its first and its last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from fallline.formats import BlockFormat
from fallline.lower.executor import Partial
from fallline.lower.item import Item, Operand
from fallline.rules.program import Program


@dataclasses.dataclass(eq=False)
class Edge:
    """The elements of a piece in a block that other pieces share."""

    item: int
    name: str
    operand: Operand
    format: BlockFormat
    block: int
    """The number of the block in the whole tensor."""
    elements: slice
    """The elements, counted in the piece."""
    values: Tensor
    """Their new values, in float32."""

    @property
    def position(self) -> int:
        """The position of the first element in the block."""
        return (self.operand.first + self.elements.start) % self.format.block

    def partial(self, number: int) -> Partial:
        """The largest magnitude, and whether some value is not finite."""
        largest = self.format.magnitude(self.values).amax().double()
        marked = (~self.values.isfinite()).any().double()
        return Partial((number, self.name, self.block), "max", torch.stack((largest, marked)).cpu())

    def store(self, joined: Tensor) -> None:
        operand, format = self.operand, self.format
        assert operand.scale is not None
        largest, marked = joined.tolist()
        scale = min(largest, format.largest_scale)
        codes = format.encode_edge(self.values, scale, self.position)
        if format.bits == 8:
            operand.data.view(-1)[self.elements] = codes
        else:
            format.write_packed(operand.data, codes, operand.first, self.elements.start)
        signed = -scale if marked else scale
        operand.scale[self.block - operand.first // format.block] = signed


class Edges:
    """All edges of the items of an executor."""

    def __init__(self, program: Program, items: Sequence[Item]):
        self.items = items
        self.all = [
            edge
            for i, item in enumerate(items)
            if item.place is not None
            for name in program.writes
            for edge in _edges_of(i, name, item, item.operand(program, name))
        ]
        self.are_possible = any(
            item.place is not None and item.operand(program, name).format is not None
            for item in items
            for name in program.writes
        )
        """Whether another piece of some item may have an edge; then every piece waits for it."""
        self._of: dict[tuple[int, str], list[Edge]] = {}
        for edge in self.all:
            self._of.setdefault((edge.item, edge.name), []).append(edge)

    def of(self, i: int, name: str) -> list[Edge]:
        """The edges of one operand: at most its first and its last block."""
        return self._of.get((i, name), [])

    def keep(self, i: int, name: str, value: Tensor) -> None:
        """Keeps the new values of an operand at its edges."""
        for edge in self.of(i, name):
            edge.values.copy_(value.reshape(-1)[edge.elements])

    def joined(self, active: Sequence[int]) -> Iterator[list[Partial]]:
        """Yields the scales of shared blocks, and encodes these blocks when the scales are joined."""
        if not self.are_possible:
            return
        here = set(active)
        edges = [edge for edge in self.all if edge.item in here]
        partials = [edge.partial(self.items[edge.item].number) for edge in edges]
        yield partials
        for edge, partial in zip(edges, partials, strict=True):
            edge.store(partial.values)


def _edges_of(i: int, name: str, item: Item, operand: Operand) -> Iterator[Edge]:
    format, count = operand.format, item.numel
    if format is None or count == 0:
        return
    begin, end, last = item.first, item.first + count, prod(item.whole_shape)
    for block in sorted({begin // format.block, (end - 1) // format.block}):
        low, high = block * format.block, min((block + 1) * format.block, last)
        if low < begin or high > end:
            elements = slice(max(low, begin) - begin, min(high, end) - begin)
            values = torch.zeros(elements.stop - elements.start, dtype=torch.float32, device=operand.data.device)
            yield Edge(i, name, operand, format, block, elements, values)
