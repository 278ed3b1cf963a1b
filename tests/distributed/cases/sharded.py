"""Steps over DTensors are those over whole parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import fallline
from tests.distributed.cases.models import cut, give_gradients, largest_difference, make, whole_params

STEPS = 20
NEAR = 1e-6
WITH_STATES: dict[str, dict[str, Any]] = {
    "sgd": dict(momentum=0.9),
    "adafactor": dict(variant="hf", beta1=0.9),
    "amos": dict(momentum=0.9),
}
"""Options without which there is no state to store in few bits."""


class Both:
    """The same optimizer over whole parameters, in every process, and over their pieces."""

    def __init__(
        self, name: str, params: list[Tensor] | None = None, pieces: list[Tensor] | None = None, **options: Any
    ):
        self.whole = whole_params() if params is None else params
        self.pieces = cut(self.whole) if pieces is None else pieces
        self.alone = make(name, self.whole, **options)
        self.together = make(name, self.pieces, **options)
        self.number = 0

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            for params, optimizer in ((self.whole, self.alone), (self.pieces, self.together)):
                give_gradients(params, self.number)
                optimizer.step()
            self.number += 1

    def difference(self) -> float:
        return largest_difference(self.pieces, self.whole)

    @property
    def is_exact(self) -> bool:
        """Whether nothing is summed: then the same operations run on the same numbers."""
        return all(bucket.program.elementwise for bucket in self.alone._plan.buckets)


def steps_as_the_whole(name: str, state_dtype: str, near: float = NEAR, **lowering: bool) -> None:
    """Elementwise rules agree bit for bit, others to ``near``."""
    options = WITH_STATES.get(name, {}) if state_dtype != "float32" else {}
    both = Both(name, state_dtype=state_dtype, **options, **lowering)
    both.step(STEPS)
    difference = both.difference()
    assert difference <= (0.0 if both.is_exact else near), difference
    counters = {float(entry["step"]) for entry in both.together.state.values()}
    assert counters == {float(entry["step"]) for entry in both.alone.state.values()}
    states = [value for p in both.pieces for value in both.together.state[p].values() if isinstance(value, Tensor)]
    assert all(
        torch.isfinite(value).all() for value in states if value.device.type != "meta" and value.is_floating_point()
    )


CASES: dict[str, Callable[[], None]] = {
    name: functools.partial(steps_as_the_whole, name, "float32") for name in fallline.list_optimizers()
}
