"""ADOPT as in iShohei220/adopt src/adopt/adopt.py: normalises by the previous second moment."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


def fourth_root(step: int) -> float:
    return step**0.25


class Oracle(BaseOracle):
    # clip_lambda=None turns the clipping off.
    defaults = dict(lr=1e-3, betas=(0.9, 0.9999), eps=1e-6, clip_lambda=fourth_root, weight_decay=0.0, decouple=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        if not h.decouple:
            g = g + h.weight_decay * p
        if t == 1:
            # Only v starts; there is neither an update nor a decay.
            s["exp_avg"], s["exp_avg_sq"] = np.zeros_like(g), g * g
            return p
        if h.decouple:
            p = p * (1 - h.lr * h.weight_decay)
        n = g / np.maximum(np.sqrt(s["exp_avg_sq"]), h.eps)
        if h.clip_lambda is not None:
            bound = h.clip_lambda(t - 1)
            n = np.clip(n, -bound, bound)
        m = beta1 * s["exp_avg"] + (1 - beta1) * n
        v = beta2 * s["exp_avg_sq"] + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        return p - h.lr * m
