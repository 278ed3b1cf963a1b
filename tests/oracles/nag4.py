"""NAG4 as in skolai/nag-gs: NAG-GS with gamma held fixed. The JAX form differs in its defaults only."""

from collections.abc import Sequence
from typing import Any

from tests.oracles.base import Array, BaseOracle, State

TORCH = dict(lr=1e-2, mu=1.0, gamma=1.0)
JAX = dict(lr=0.05, mu=1.0, gamma=1.5)


class Oracle(BaseOracle):
    def __init__(self, params: Sequence[Array], variant: str = "torch", **hyperparameters: Any) -> None:
        self.defaults = {"torch": TORCH, "jax": JAX}[variant]
        super().__init__(params, **hyperparameters)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        lr, mu, gamma = self.h.lr, self.h.mu, self.h.gamma
        b = lr * mu / (lr * mu + gamma)
        v = (1 - b) * s.get("v", p) + b * p - lr / (lr * mu + gamma) * g
        s["v"] = v
        a = lr / (1 + lr)
        return (1 - a) * p + a * v
