"""RAdam as in torch/optim/radam.py; eps is added to the second moment before its bias correction."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        if h.decoupled_weight_decay:
            p = p * (1 - h.lr * h.weight_decay)
        else:
            g = g + h.weight_decay * p
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        m_hat = m / (1 - beta1**t)
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
        if rho > 5:
            r = np.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
            return p - h.lr * m_hat * r * np.sqrt(1 - beta2**t) / (np.sqrt(v) + h.eps)
        return p - h.lr * m_hat
