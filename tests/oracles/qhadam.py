"""QHAdam as in facebookresearch/qhoptim pyt/qhadam.py; the moments are debiased by their running weights."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-3, betas=(0.9, 0.999), nus=(1.0, 1.0), weight_decay=0.0, decouple_weight_decay=False, eps=1e-8
    )

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        nu1, nu2 = h.nus
        if h.decouple_weight_decay:
            p = p * (1 - h.lr * h.weight_decay)
        else:
            g = g + h.weight_decay * p
        w1 = 1 + beta1 * s.get("beta1_weight", 0.0)
        w2 = 1 + beta2 * s.get("beta2_weight", 0.0)
        s["beta1_weight"], s["beta2_weight"] = w1, w2
        b1, b2 = 1 - 1 / w1, 1 - 1 / w2
        m = b1 * s.get("exp_avg", 0.0) + (1 - b1) * g
        v = b2 * s.get("exp_avg_sq", 0.0) + (1 - b2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        denom = np.sqrt(nu2 * v + (1 - nu2) * g * g) + h.eps
        return p - h.lr * (nu1 * m + (1 - nu1) * g) / denom
