"""AdaGrad as in torch/optim/adagrad.py; eps_inside=True is the textbook form g / sqrt(v + eps)."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, eps_inside=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        g = g + h.weight_decay * p
        v = s.get("sum", h.initial_accumulator_value) + g * g
        s["sum"] = v
        lr = h.lr / (1 + (t - 1) * h.lr_decay)
        denom = np.sqrt(v + h.eps) if h.eps_inside else np.sqrt(v) + h.eps
        return p - lr * g / denom
