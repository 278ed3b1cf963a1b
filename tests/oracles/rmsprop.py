"""RMSprop as in torch/optim/rmsprop.py; eps_inside=True is the textbook form g / sqrt(v + eps)."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, eps_inside=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        g = g + h.weight_decay * p
        v = h.alpha * s.get("square_avg", 0.0) + (1 - h.alpha) * g * g
        s["square_avg"] = v
        if h.centered:
            g_avg = h.alpha * s.get("grad_avg", 0.0) + (1 - h.alpha) * g
            s["grad_avg"] = g_avg
            v = v - g_avg * g_avg
        d = g / (np.sqrt(v + h.eps) if h.eps_inside else np.sqrt(v) + h.eps)
        if h.momentum > 0:
            d = h.momentum * s.get("momentum_buffer", 0.0) + d
            s["momentum_buffer"] = d
        return p - h.lr * d
