"""NAG-GS as in skolai/nag-gs (arXiv 2209.14937).

gamma is one scalar per group and moves at every step; the hyperparameter is its starting value. The JAX
form has other defaults and leaves v alone at the first step, while gamma moves then too. b/mu is written
as lr / (lr mu + gamma), which is the same and legal at mu = 0.
"""

from collections.abc import Sequence
from typing import Any

from tests.oracles.base import Array, BaseOracle

TORCH = dict(lr=1e-2, mu=1.0, gamma=1.0)
JAX = dict(lr=0.05, mu=1.0, gamma=1.5)


class Oracle(BaseOracle):
    def __init__(self, params: Sequence[Array], variant: str = "torch", **hyperparameters: Any) -> None:
        self.variant = variant
        self.defaults = {"torch": TORCH, "jax": JAX}[variant]
        super().__init__(params, **hyperparameters)
        self.gamma = self.h.gamma
        self.k = 0

    def step(self, grads: Sequence[Array | None]) -> None:
        lr, mu, gamma = self.h.lr, self.h.mu, self.gamma
        a = lr / (1 + lr)
        b = lr * mu / (lr * mu + gamma)
        for i, g in enumerate(self.gradients(grads)):
            if g is None:
                continue
            p, s = self.params[i], self.states[i]
            v = s.get("v", p)
            if self.variant == "torch" or self.k > 0:
                v = (1 - b) * v + b * p - lr / (lr * mu + gamma) * g
            s["v"] = v
            self.store(i, (1 - a) * p + a * v)
        self.gamma = (gamma + lr * mu) / (1 + lr)
        self.k += 1
