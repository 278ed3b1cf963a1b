"""Schedule-Free Prodigy as AlgoPerf's entry has it (v0.5), in its three sequences x, y and z.

`params` are y, where gradients are taken; `x` are the averaged weights to evaluate. d, its numerator, the
counter k and the sum of weights belong to the optimizer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults: dict[str, Any] = dict(
        lr=1.0, betas=(0.9, 0.9955), eps=1e-8, weight_decay=0.0, warmup_steps=0, r=0.75, d0=1e-6, d_coef=1.0
    )

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.d = self.h.d0
        self.d_numerator = 0.0
        self.k = 0
        self.weight_sum = 0.0
        self.x = list(self.params)

    def step(self, grads: Sequence[Array | None]) -> None:
        h, d = self.h, self.d
        beta1, beta2 = h.betas
        lr = h.lr * min(1.0, (self.k + 1) / h.warmup_steps) if h.warmup_steps > 0 else h.lr
        dlr = d * lr
        numerator = np.sqrt(beta2) * self.d_numerator
        denominator = 0.0
        given = [(i, g) for i, g in enumerate(self.gradients(grads)) if g is not None]
        for i, g in given:
            s = self.states[i]
            s.setdefault("z", self.params[i])
            s.setdefault("p0", self.params[i])
            numerator += d * dlr * np.sum(g * (s["p0"] - s["z"]))
            s["exp_avg_sq"] = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * d * d * g * g
            s["s"] = np.sqrt(beta2) * s.get("s", 0.0) + d * dlr * g
            denominator += np.sum(np.abs(s["s"]))
            self.store(i, self.params[i])
        if denominator == 0:
            return
        d = max(d, h.d_coef * numerator / denominator)
        weight = (self.k + 1) ** h.r
        self.weight_sum += weight
        c = weight / self.weight_sum
        for i, g in given:
            s = self.states[i]
            z = s["z"] - h.weight_decay * dlr * self.x[i]
            z = z - d * dlr * g / (np.sqrt(s["exp_avg_sq"]) + d * h.eps)
            self.x[i] = np.asarray((1 - c) * self.x[i] + c * z)
            s["z"] = z
            self.store(i, (1 - beta1) * z + beta1 * self.x[i])
        self.d, self.d_numerator, self.k = d, numerator, self.k + 1
