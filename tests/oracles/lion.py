"""Lion as in lucidrains/lion-pytorch.

decoupled_weight_decay divides the decay by the learning rate at construction. cautious_factor scales the
entries whose update disagrees with the gradient; 1 is plain Lion.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, decoupled_weight_decay=False, cautious_factor=1.0)

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.lr_init = self.h.lr

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        weight_decay = h.weight_decay / self.lr_init if h.decoupled_weight_decay else h.weight_decay
        p = p * (1 - h.lr * weight_decay)
        m = s.get("exp_avg", 0.0)
        u = np.sign(beta1 * m + (1 - beta1) * g)
        if h.cautious_factor < 1:
            scale = np.where(u * g <= 0, h.cautious_factor, 1.0)
            u = u * scale / max(np.mean(scale), 1e-5)
        s["exp_avg"] = beta2 * m + (1 - beta2) * g
        return p - h.lr * u
