"""Schedule-Free AdamW as in facebookresearch/schedule_free adamw_schedulefree.py.

`params` are y, where gradients are taken; `x` are the averaged weights to evaluate. Only y and z are
stored, so x follows from them and the current beta1. The counter k, the largest lr and the sum of
weights belong to the group and advance at every step. variant="algoperf" is AlgoPerf's first entry.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(
        lr=0.0025,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        warmup_steps=0,
        r=0.0,
        weight_lr_power=2.0,
        inner_momentum=0.0,
        variant="schedulefree",
    )

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.k = 0
        self.lr_max = 0.0
        self.weight_sum = 0.0

    @property
    def x(self) -> list[Array]:
        beta1 = self.h.betas[0]
        return [
            np.asarray(y + (1 - 1 / beta1) * (s.get("z", y) - y)) for y, s in zip(self.params, self.states, strict=True)
        ]

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        beta1, beta2 = h.betas
        k = self.k
        lr = h.lr * min(1.0, (k + 1) / h.warmup_steps) if h.warmup_steps > 0 else h.lr
        if h.variant == "algoperf":
            lr = max(lr, h.eps)
        self.lr_max = max(self.lr_max, lr)
        weight = (k + 1) ** h.r * self.lr_max**h.weight_lr_power
        self.weight_sum += weight
        c = weight / self.weight_sum if self.weight_sum > 0 else 0.0

        old_x = self.x
        for i, g in enumerate(self.gradients(grads)):
            if g is None:
                continue
            y, x, s = self.params[i], old_x[i], self.states[i]
            z = s.get("z", y)
            v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
            s["exp_avg_sq"] = v
            if h.inner_momentum > 0:
                m = h.inner_momentum * s.get("exp_avg", 0.0) + (1 - h.inner_momentum) * g
                s["exp_avg"] = m
                g = m / (1 - h.inner_momentum ** (k + 1))
            if h.variant == "algoperf":
                size = lr * np.sqrt(1 - beta2 ** (k + 1))
                z = z - size * g / (np.sqrt(v) + h.eps)
                z = z - size * h.weight_decay * x
            else:
                g_hat = g / (np.sqrt(v / (1 - beta2 ** (k + 1))) + h.eps) + h.weight_decay * y
                z = z - lr * g_hat
            x = (1 - c) * x + c * z
            y = (1 - beta1) * z + beta1 * x
            s["z"] = z
            self.store(i, y)
        self.k = k + 1
