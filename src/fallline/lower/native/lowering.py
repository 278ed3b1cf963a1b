"""The generated kernels as lowerings: all parameters in one launch, or one launch each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from fallline.lower.executor import Executor, Lowering
from fallline.lower.item import Item
from fallline.lower.native.executor import NativeExecutor, supports
from fallline.lower.native.kernels import kernel
from fallline.lower.native.library import NativeUnavailable
from fallline.rules.program import Program


class Native(Lowering):
    name = "native"
    kernels = "native"
    automatic = True
    each: ClassVar[bool] = False
    """Whether every parameter has a launch of its own."""

    def obstacle(self, item: Item) -> str | None:
        if item.dtype == torch.float64:
            return "float64 has no native kernel"
        if len(item.shape) > 64:
            return "more than 64 axes"
        for operand in (*item.operands, *((item.low_precision_copy,) if item.low_precision_copy else ())):
            data = operand.data
            if data.device.type != "cpu":
                return f"the parameter is on {data.device}"
            if operand.lazy:
                return "it is a lazily conjugated or negated view"
            if operand.format is None and not supports(data):
                return f"{data.dtype} has no native kernel"
        return None

    def missing(self, program: Program) -> str | None:
        try:
            kernel(program)
            return None
        except NativeUnavailable as reason:
            return str(reason)

    def prepare(self, program: Program, items: Sequence[Item]) -> Executor:
        return NativeExecutor(kernel(program), items, each=self.each)


class NativeEach(Native):
    """The same kernels with one launch per parameter; they are missing for the same reasons."""

    name = "native each"
    automatic = False
    each = True

    def __init__(self, together: Native):
        self._told = together._told
