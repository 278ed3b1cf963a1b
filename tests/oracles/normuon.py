"""NorMuon, zichongli5/NorMuon normuon.py, for matrices."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State
from tests.oracles.muon import iterated


class Oracle(BaseOracle):
    defaults = dict(
        lr=0.02, weight_decay=0.0, momentum=0.95, beta2=0.95, nesterov=True, eps=1e-10, scale="original"
    )  # fmt: skip

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        b = h.momentum * s.get("momentum_buffer", np.zeros_like(p)) + (1 - h.momentum) * g
        u = (1 - h.momentum) * g + h.momentum * b if h.nesterov else b
        o = iterated(u, added=True)
        v = h.beta2 * s.get("second_momentum_buffer", np.zeros((len(p), 1))) + (1 - h.beta2) * (o * o).mean(
            1, keepdims=True
        )
        s["momentum_buffer"], s["second_momentum_buffer"] = b, v
        n = o / (np.sqrt(v) + h.eps)
        n = n * np.linalg.norm(o) / (np.linalg.norm(n) + h.eps)
        rows, cols = p.shape
        factor = 0.2 * max(rows, cols) ** 0.5 if h.scale == "match_rms_adamw" else max(1.0, rows / cols) ** 0.5
        return np.asarray(p * (1 - h.lr * h.weight_decay) - h.lr * factor * n)
