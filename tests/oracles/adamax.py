"""Adamax as in torch/optim/adamax.py; eps is inside the maximum."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        g = g + h.weight_decay * p
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        u = np.maximum(beta2 * s.get("exp_inf", 0.0), np.abs(g) + h.eps)
        s["exp_avg"], s["exp_inf"] = m, u
        return p - h.lr / (1 - beta1**t) * m / u
