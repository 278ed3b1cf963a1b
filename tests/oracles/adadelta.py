"""Adadelta as in torch/optim/adadelta.py; lr multiplies the step outside the accumulator."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, gamma=None)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        g = g + h.weight_decay * p
        gamma = h.rho if h.gamma is None else h.gamma
        v = gamma * s.get("square_avg", 0.0) + (1 - gamma) * g * g
        acc = s.get("acc_delta", np.zeros_like(p))
        delta = np.sqrt(acc + h.eps) / np.sqrt(v + h.eps) * g
        s["square_avg"] = v
        s["acc_delta"] = h.rho * acc + (1 - h.rho) * delta * delta
        return p - h.lr * delta
