"""Adam as in torch/optim/adam.py, coupled or decoupled decay; AMSGrad as torch, optax and the paper have it."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        decoupled_weight_decay=False,
        variant="torch",
    )

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
        if h.variant == "optax":
            s["max_exp_avg_sq"] = np.maximum(s.get("max_exp_avg_sq", 0.0), v / (1 - beta2**t))
            return p - h.lr * (m / (1 - beta1**t)) / (np.sqrt(s["max_exp_avg_sq"]) + h.eps)
        if h.variant == "paper":
            s["max_exp_avg_sq"] = np.maximum(s.get("max_exp_avg_sq", 0.0), v)
            return p - h.lr * m / (np.sqrt(s["max_exp_avg_sq"]) + h.eps)
        if h.amsgrad:
            v = np.maximum(s.get("max_exp_avg_sq", 0.0), v)
            s["max_exp_avg_sq"] = v
        denom = np.sqrt(v) / np.sqrt(1 - beta2**t) + h.eps
        return p - h.lr / (1 - beta1**t) * m / denom
