"""NAdamW of the AlgoPerf baselines, PyTorch form (pytorch_nadamw_full_budget.py)."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        p = p * (1 - h.lr * h.weight_decay)
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        n = beta1 * m + (1 - beta1) * g
        denom = np.sqrt(v) / np.sqrt(1 - beta2**t) + h.eps
        return p - h.lr / (1 - beta1**t) * n / denom
