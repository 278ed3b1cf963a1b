"""The little that all oracles share: private copies, counters, hyperparameters by name."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = dict[str, Array]

REQUIRED = object()


class BaseOracle:
    """Calls `rule` for each parameter that has a gradient; t counts that parameter's own steps from 1.

    Rules never write into an array, so states may share memory with parameters and gradients.
    """

    defaults: dict[str, Any] = {}

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        self.params: list[Array] = [np.array(p, dtype=np.float64) for p in params]
        self.states: list[State] = [{} for _ in params]
        self.steps = [0 for _ in params]
        self.h = SimpleNamespace(**self.defaults, maximize=False)
        self.set(**hyperparameters)
        missing = [name for name, value in vars(self.h).items() if value is REQUIRED]
        if missing:
            raise TypeError(f"missing hyperparameters: {', '.join(missing)}")

    def set(self, **hyperparameters: Any) -> None:
        for name, value in hyperparameters.items():
            if not hasattr(self.h, name):
                raise TypeError(f"unknown hyperparameter {name!r}; known: {', '.join(vars(self.h))}")
            setattr(self.h, name, value)

    def step(self, grads: Sequence[Array | None]) -> None:
        for i, g in enumerate(self.gradients(grads)):
            if g is not None:
                self.steps[i] += 1
                self.store(i, self.rule(self.params[i], g, self.states[i], self.steps[i]))

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        """The new parameter; the new states are put into s."""
        raise NotImplementedError

    def gradients(self, grads: Sequence[Array | None]) -> list[Array | None]:
        if len(grads) != len(self.params):
            raise ValueError(f"expected {len(self.params)} gradients, got {len(grads)}")
        sign = -1.0 if self.h.maximize else 1.0
        return [None if g is None else np.asarray(sign * np.array(g, dtype=np.float64)) for g in grads]

    def store(self, i: int, p: Array) -> None:
        # NumPy turns 0-d arrays into scalars at every operation; callers always see arrays.
        self.params[i] = np.asarray(p)
        self.states[i] = {name: np.asarray(value) for name, value in self.states[i].items()}
