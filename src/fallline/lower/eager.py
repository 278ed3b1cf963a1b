"""One tensor at a time in plain torch operations: the reference of every other lowering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fallline.lower.executor import StepScalars
from fallline.lower.torch_executor import Known, TorchExecutor, TorchLowering


class EagerExecutor(TorchExecutor):
    def compute(
        self, k: int, active: Sequence[int], known: Known, scalars: StepScalars
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        one = self.source.passes[k]
        for i in active:
            taken = self.taken(one, i, known, scalars.grad_factor)
            yield i, one.function(*taken, *scalars.sets[scalars.set_of[i]], self.items[i].dtype)


class Eager(TorchLowering):
    name = "eager"
    executor = EagerExecutor
