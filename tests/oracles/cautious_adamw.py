"""Cautious AdamW in two forms: kyleliang919/C-Optim c_adamw.py ("c_optim") and timm's AdamW ("timm").

C-Optim adds eps to the root of the second moment before its bias correction, timm after. The mask keeps
the entries where the momentum agrees with the current gradient; the state and the decay are not masked.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0)

    def __init__(self, params: Sequence[Array], variant: str = "c_optim", **hyperparameters: Any) -> None:
        if variant not in ("c_optim", "timm"):
            raise ValueError(f"variant must be 'c_optim' or 'timm', got {variant!r}")
        self.variant = variant
        super().__init__(params, **hyperparameters)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        p = p * (1 - h.lr * h.weight_decay)
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        mask = np.where(m * g > 0, 1.0, 0.0)
        mask = mask / max(np.mean(mask), 1e-3)
        if self.variant == "c_optim":
            return p - h.lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m * mask / (np.sqrt(v) + h.eps)
        return p - h.lr / (1 - beta1**t) * m * mask / (np.sqrt(v) / np.sqrt(1 - beta2**t) + h.eps)
