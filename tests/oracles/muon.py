"""Muon: torch/optim/_muon.py (variant torch), KellerJordan/Muon (jordan), MoonshotAI/Moonlight (moonlight)."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, variant="torch", scale="original")

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        heavy = h.variant == "moonlight"
        kept = 1.0 if heavy else 1 - h.momentum
        b = h.momentum * s.get("momentum_buffer", np.zeros_like(p)) + kept * g
        s["momentum_buffer"] = b
        u = kept * g + h.momentum * b if h.nesterov else b
        o = iterated(u, added=h.variant == "jordan")
        rows, cols = p.shape
        factor = 0.2 * max(rows, cols) ** 0.5 if h.scale == "match_rms_adamw" else max(1.0, rows / cols) ** 0.5
        return p * (1 - h.lr * h.weight_decay) - h.lr * factor * o


def iterated(x: Array, *, added: bool) -> Array:
    """Five steps of the polynomial on the singular values, which are found directly."""
    norm = np.linalg.norm(x)
    u, values, vh = np.linalg.svd(x / (norm + 1e-7 if added else max(norm, 1e-7)), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return np.asarray(u * values @ vh)
