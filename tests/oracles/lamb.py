"""LAMB as in timm optim/lamb.py and NVIDIA apex fused_lamb.py.

The step counter belongs to the group and advances at every step. decoupled_decay is timm's,
adam_w_mode=False is apex's coupled decay; always_adapt is apex's use_nvlamb.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-6,
        weight_decay=0.01,
        bias_correction=True,
        grad_averaging=True,
        max_grad_norm=1.0,
        trust_clip=False,
        always_adapt=False,
        decoupled_decay=False,
        adam_w_mode=True,
    )

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.t = 0

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        beta1, beta2 = h.betas
        self.t += 1
        t = self.t
        given = [(i, g) for i, g in enumerate(self.gradients(grads)) if g is not None]
        if h.max_grad_norm is not None:
            norm = np.sqrt(sum(np.sum(g * g) for _, g in given))
            given = [(i, g / max(1.0, norm / h.max_grad_norm)) for i, g in given]
        correction1 = 1 - beta1**t if h.bias_correction else 1.0
        correction2 = 1 - beta2**t if h.bias_correction else 1.0
        for i, g in given:
            p, s = self.params[i], self.states[i]
            if not h.adam_w_mode:
                g = g + h.weight_decay * p
            m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1 if h.grad_averaging else 1.0) * g
            v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
            s["exp_avg"], s["exp_avg_sq"] = m, v
            u = m / correction1 / (np.sqrt(v) / np.sqrt(correction2) + h.eps)
            if h.decoupled_decay:
                p = p - h.lr * h.weight_decay * p
            elif h.adam_w_mode:
                u = u + h.weight_decay * p
            r = 1.0
            if h.weight_decay != 0 or h.always_adapt:
                p_norm, u_norm = np.sqrt(np.sum(p * p)), np.sqrt(np.sum(u * u))
                if p_norm > 0 and u_norm > 0:
                    r = p_norm / u_norm
                if h.trust_clip:
                    r = min(r, 1.0)
            self.store(i, p - h.lr * r * u)
