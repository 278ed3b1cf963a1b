"""Schedule-Free SGD as in facebookresearch/schedule_free sgd_schedulefree.py.

`params` are y, where gradients are taken; `x` are the averaged weights to evaluate. The counter k, the
largest lr and the sum of weights belong to the group and advance at every step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(lr=1.0, momentum=0.9, weight_decay=0.0, warmup_steps=0, r=0.0, weight_lr_power=2.0)

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.k = 0
        self.lr_max = 0.0
        self.weight_sum = 0.0

    @property
    def x(self) -> list[Array]:
        beta = self.h.momentum
        return [
            np.asarray(y + (1 - 1 / beta) * (s.get("z", y) - y)) for y, s in zip(self.params, self.states, strict=True)
        ]

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        beta = h.momentum
        k = self.k
        lr = h.lr * min(1.0, (k + 1) / h.warmup_steps) if h.warmup_steps > 0 else h.lr
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
            g = g + h.weight_decay * y
            z = z - lr * g
            x = (1 - c) * x + c * z
            y = (1 - beta) * z + beta * x
            s["z"] = z
            self.store(i, y)
        self.k = k + 1
