"""NadamP of AlgoPerf v0.5 (nadamp/submission.py): NAdamW whose second moment enters by its p-th root."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, eps_root=0.0, power=2.0, weight_decay=0.0)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        n_hat = (beta1 * m + (1 - beta1) * g) / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        u = n_hat / (np.power(v_hat + h.eps_root, 1 / h.power) + h.eps)
        return p - h.lr * (u + h.weight_decay * p)
