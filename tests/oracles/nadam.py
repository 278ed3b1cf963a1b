"""NAdam as in torch/optim/nadam.py, with its decaying momentum schedule."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
    )

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        if h.decoupled_weight_decay:
            p = p * (1 - h.lr * h.weight_decay)
        else:
            g = g + h.weight_decay * p
        mu = beta1 * (1 - 0.5 * 0.96 ** (t * h.momentum_decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * h.momentum_decay))
        product = s.get("mu_product", 1.0) * mu
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"], s["mu_product"] = m, v, product
        denom = np.sqrt(v / (1 - beta2**t)) + h.eps
        p = p - h.lr * (1 - mu) / (1 - product) * g / denom
        return p - h.lr * mu_next / (1 - product * mu_next) * m / denom
