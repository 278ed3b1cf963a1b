"""AdEMAMix as in apple/ml-ademamix pytorch/ademamix.py; the slow average is not debiased."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


def half_life(beta: float) -> float:
    return np.log(0.5) / np.log(beta + 1e-8) - 1


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-3,
        betas=(0.9, 0.999, 0.9999),
        alpha=2.0,
        beta3_warmup=None,
        alpha_warmup=None,
        eps=1e-8,
        weight_decay=0.0,
    )

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2, beta3 = h.betas
        alpha = h.alpha
        if h.alpha_warmup is not None:
            alpha = h.alpha * min(1.0, t / h.alpha_warmup)
        if h.beta3_warmup is not None and t < h.beta3_warmup:
            a = t / h.beta3_warmup
            beta3 = 0.5 ** (1 / ((1 - a) * half_life(beta1) + a * half_life(beta3) + 1))
        if beta1 == 0:
            fast = g
        else:
            fast = beta1 * s.get("exp_avg_fast", 0.0) + (1 - beta1) * g
            s["exp_avg_fast"] = fast
        slow = beta3 * s.get("exp_avg_slow", 0.0) + (1 - beta3) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg_slow"], s["exp_avg_sq"] = slow, v
        denom = np.sqrt(v) / np.sqrt(1 - beta2**t) + h.eps
        return p - h.lr * ((fast / (1 - beta1**t) + alpha * slow) / denom + h.weight_decay * p)
