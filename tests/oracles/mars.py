"""MARS as in AGI-Arena/MARS MARS/optimizers/mars.py with is_approx=True: mars-adamw and mars-lion.

Only 2-D tensors take the corrected gradient (all with optimize_1d); the others take AdamW with the *_1d
settings, whose learning rate keeps its ratio to the lr at construction. last_grad is a copy: the source
keeps a reference to the gradient, which breaks when gradients are zeroed in place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=3e-3,
        betas=(0.95, 0.99),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        gamma=0.025,
        mars_type="mars-adamw",
        optimize_1d=False,
        lr_1d=3e-3,
        betas_1d=(0.9, 0.95),
        weight_decay_1d=0.1,
    )

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        if self.h.mars_type not in ("mars-adamw", "mars-lion"):
            raise ValueError(f"mars_type must be 'mars-adamw' or 'mars-lion', got {self.h.mars_type!r}")
        self.lr_init = self.h.lr

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        if g.ndim != 2 and not h.optimize_1d:
            lr = h.lr * (h.lr_1d / self.lr_init)
            return self.adamw(p, g, s, t, lr, h.betas_1d, h.weight_decay_1d)
        beta1 = h.betas[0]
        c = g + h.gamma * beta1 / (1 - beta1) * (g - s.get("last_grad", 0.0))
        s["last_grad"] = g
        norm = np.sqrt(np.sum(c * c))
        if norm > 1:
            c = c / norm
        if h.mars_type == "mars-adamw":
            return self.adamw(p, c, s, t, h.lr, h.betas, h.weight_decay)
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * c
        s["exp_avg"] = m
        return p - h.lr * (np.sign(m) + h.weight_decay * p)

    def adamw(
        self, p: Array, c: Array, s: State, t: int, lr: float, betas: tuple[float, float], weight_decay: float
    ) -> Array:
        beta1, beta2 = betas
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * c
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * c * c
        s["exp_avg"], s["exp_avg_sq"] = m, v
        if self.h.amsgrad:
            v = np.maximum(s.get("max_exp_avg_sq", 0.0), v)
            s["max_exp_avg_sq"] = v
        denom = np.sqrt(v) / np.sqrt(1 - beta2**t) + self.h.eps
        return p - lr * (m / (1 - beta1**t) / denom + weight_decay * p)
