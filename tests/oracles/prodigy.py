"""Prodigy as in konstmish/prodigy prodigyopt/prodigy.py, with slice_p=1.

d, its running maximum, the numerator and the counter k belong to the optimizer. Sums run over the
parameters that have a gradient at this step. `resting` are the numbers of parameters whose group has lr 0:
they take no part, but decoupled decay shrinks them by the rate of the others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(
        lr=1.0,
        betas=(0.9, 0.999),
        beta3=None,
        eps=1e-8,
        weight_decay=0.0,
        decouple=True,
        use_bias_correction=False,
        safeguard_warmup=False,
        d0=1e-6,
        d_coef=1.0,
        growth_rate=float("inf"),
        resting=(),
    )

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.d = self.h.d0
        self.d_max = self.h.d0
        self.d_numerator = 0.0
        self.k = 0

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        beta1, beta2 = h.betas
        beta3 = np.sqrt(beta2) if h.beta3 is None else h.beta3
        if h.lr == 0:
            return  # nothing enters the sums, so sum |s| is 0

        d = self.d
        k = self.k
        correction = np.sqrt(1 - beta2 ** (k + 1)) / (1 - beta1 ** (k + 1)) if h.use_bias_correction else 1.0
        dlr = d * h.lr * correction

        given = [(i, g) for i, g in enumerate(self.gradients(grads)) if g is not None]
        if not h.decouple:
            given = [(i, g + h.weight_decay * self.params[i]) for i, g in given]

        numerator = beta3 * self.d_numerator
        denominator = 0.0
        for i, g in given:
            p, s = self.params[i], self.states[i]
            if i in h.resting:
                continue
            p0 = s.get("p0", p)
            numerator += d / h.d0 * dlr * np.sum(g * (p0 - p))
            s["p0"] = p0
            if beta1 > 0:
                s["exp_avg"] = beta1 * s.get("exp_avg", 0.0) + d * (1 - beta1) * g
            s["exp_avg_sq"] = beta2 * s.get("exp_avg_sq", 0.0) + d * d * (1 - beta2) * g * g
            s["s"] = beta3 * s.get("s", 0.0) + d / h.d0 * (d if h.safeguard_warmup else dlr) * g
            denominator += np.sum(np.abs(s["s"]))
            self.store(i, p)

        if denominator == 0:
            return
        d_hat = h.d_coef * numerator / denominator
        if d == h.d0:
            d = max(d, d_hat)
        self.d_max = max(self.d_max, d_hat)
        d = min(self.d_max, d * h.growth_rate)

        # From here on d is the new one; dlr still holds the old one.
        for i, g in given:
            p, s = self.params[i], self.states[i]
            if i in h.resting:
                self.store(i, p * (1 - h.weight_decay * dlr) if h.decouple else p)
                continue
            denom = np.sqrt(s["exp_avg_sq"]) + d * h.eps
            if h.decouple:
                p = p - h.weight_decay * dlr * p
            if beta1 > 0:
                p = p - dlr * s["exp_avg"] / denom
            else:
                p = p - dlr * d * g / denom
            self.store(i, p)

        self.d = d
        self.d_numerator = numerator
        self.k = k + 1
