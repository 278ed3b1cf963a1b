"""Adan as in sail-sg/Adan adan.py.

The step counter belongs to the group and advances at every step. neg_pre_grad is minus the last (clipped)
gradient; the gradient difference is 0 at a parameter's first gradient and at the group's first step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.0, max_grad_norm=0.0, no_prox=False)

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.t = 0

    def restart_opt(self) -> None:
        self.t = 0
        for s in self.states:
            for name in s.keys() - {"neg_pre_grad"}:
                s[name] = np.zeros_like(s[name])

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        beta1, beta2, beta3 = h.betas
        self.t += 1
        t = self.t
        given = [(i, g) for i, g in enumerate(self.gradients(grads)) if g is not None]
        if h.max_grad_norm > 0:
            norm = np.sqrt(sum(np.sum(g * g) for _, g in given))
            clip = min(1.0, h.max_grad_norm / (norm + h.eps))
            given = [(i, clip * g) for i, g in given]
        for i, g in given:
            p, s = self.params[i], self.states[i]
            if t == 1 or "neg_pre_grad" not in s:
                diff = np.zeros_like(g)
            else:
                diff = g + s["neg_pre_grad"]
            m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
            d = beta2 * s.get("exp_avg_diff", 0.0) + (1 - beta2) * diff
            n = beta3 * s.get("exp_avg_sq", 0.0) + (1 - beta3) * (g + beta2 * diff) ** 2
            s["exp_avg"], s["exp_avg_diff"], s["exp_avg_sq"], s["neg_pre_grad"] = m, d, n, -g
            denom = np.sqrt(n) / np.sqrt(1 - beta3**t) + h.eps
            u = (m / (1 - beta1**t) + beta2 * d / (1 - beta2**t)) / denom
            if h.no_prox:
                p = p * (1 - h.lr * h.weight_decay) - h.lr * u
            else:
                p = (p - h.lr * u) / (1 + h.lr * h.weight_decay)
            self.store(i, p)
