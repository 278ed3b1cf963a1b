"""AdamP as in clovaai/AdamP adamp/adamp.py: Adam whose update is projected for scale-invariant weights."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


def project(p: Array, g: Array, u: Array, eps: float, delta: float, wd_ratio: float) -> tuple[Array, float]:
    """The update without its radial part, and the factor on the weight decay.

    The test uses the raw gradient, first per row of (size0, rest), then on the whole tensor as one row.
    """
    for rows in (p.shape[0], 1):
        p_rows, g_rows, u_rows = p.reshape(rows, -1), g.reshape(rows, -1), u.reshape(rows, -1)
        p_norm = np.sqrt(np.sum(p_rows * p_rows, axis=1))
        g_norm = np.sqrt(np.sum(g_rows * g_rows, axis=1))
        cos = np.sum(g_rows * p_rows, axis=1) / (np.maximum(g_norm, eps) * np.maximum(p_norm, eps))
        if np.max(np.abs(cos)) < delta / np.sqrt(p_rows.shape[1]):
            unit = p_rows / (p_norm + eps)[:, None]
            u_rows = u_rows - unit * np.sum(unit * u_rows, axis=1)[:, None]
            return u_rows.reshape(p.shape), wd_ratio
    return u, 1.0


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, delta=0.1, wd_ratio=0.1, nesterov=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        denom = np.sqrt(v) / np.sqrt(1 - beta2**t) + h.eps
        u = (beta1 * m + (1 - beta1) * g) / denom if h.nesterov else m / denom
        w = 1.0
        if p.ndim > 1:
            u, w = project(p, g, u, h.eps, h.delta, h.wd_ratio)
        if h.weight_decay > 0:
            p = p * (1 - h.lr * h.weight_decay * w)
        return p - h.lr / (1 - beta1**t) * u
