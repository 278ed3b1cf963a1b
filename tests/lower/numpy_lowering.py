"""A lowering that nobody knows of but its own file: elementwise programs in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fallline.lower.executor import Deferred, Executor, Lowering, Passes, StepScalars
from fallline.lower.item import Item
from fallline.rules.node import Node
from fallline.rules.program import Program, reachable
from fallline.rules.space import Space

OPERATIONS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "neg": np.negative,
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh, "minimum": np.minimum,
    "maximum": np.maximum, "where": np.where, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "truth": lambda x: x != 0,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sign": lambda x: np.sign(np.nan_to_num(x)),
}  # fmt: skip


class NumpyExecutor(Executor):
    @property
    def launches(self) -> int:
        return 0

    def run(self, scalars: StepScalars) -> Deferred:
        with np.errstate(all="ignore"):
            for i in self.present:
                self.step(i, scalars)
        self.tell_autograd()
        return {}

    def passes(self, scalars: StepScalars) -> Passes:
        self.run(scalars)
        return {}
        yield  # an elementwise program has nothing to wait for

    def step(self, i: int, scalars: StepScalars) -> None:
        program, item, number = self.program, self.items[i], np.dtype(str(self.items[i].dtype).split(".")[1]).type
        known: dict[int, Any] = {
            node.index: number(value)
            for node, value in zip(program.host_values, scalars.sets[scalars.set_of[i]], strict=True)
        }

        def value(node: Node) -> Any:
            return number(node.attr) if node.op == "const" else known[node.index]

        for node in reachable(program.writes.values(), lambda node: node.space == Space.FULL):
            if node.op == "operand":
                if node.attr == program.grad:
                    known[node.index] = self.grads[i].numpy() * number(scalars.grad_factor)
                else:
                    known[node.index] = item.operand(program, node.attr).data.numpy().copy()
            else:
                known[node.index] = OPERATIONS[node.op](*map(value, node.args))
        for name, node in program.writes.items():
            target = item.operand(program, name).data.numpy()
            target[...] = value(node)


class Numpy(Lowering):
    name = "numpy"

    def obstacle(self, item: Item) -> str | None:
        if any(o.data.device.type != "cpu" or not o.is_plain or o.data.dtype != item.dtype for o in item.operands):
            return "numpy steps plain float32 and float64 tensors on the CPU only"
        return None

    def missing(self, program: Program) -> str | None:
        return None if program.elementwise else "numpy runs elementwise rules only"

    def prepare(self, program: Program, items: Sequence[Item]) -> Executor:
        return NumpyExecutor(program, items)
