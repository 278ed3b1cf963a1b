"""Adafactor in two forms: torch/optim/_adafactor.py ("torch") and transformers/optimization.py ("hf").

They differ in where eps1 stands (a clamp, or added to g²), in the decay (raw lr, or the scaled lr_t), and
in the first moment and learning rates that only "hf" has. The row and column states keep the reduced axis
in the torch form and drop it in the HF form, as each source stores them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle, State

TORCH: dict[str, Any] = dict(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0)
HF: dict[str, Any] = dict(
    lr=None,
    eps=(1e-30, 1e-3),
    clip_threshold=1.0,
    decay_rate=-0.8,
    beta1=None,
    weight_decay=0.0,
    scale_parameter=True,
    relative_step=True,
    warmup_init=False,
)


def rms(x: Array) -> Any:
    return np.sqrt(np.mean(x * x))


class Oracle(BaseOracle):
    def __init__(self, params: Sequence[Array], variant: str = "torch", **hyperparameters: Any) -> None:
        self.variant = variant
        self.defaults = {"torch": TORCH, "hf": HF}[variant]
        super().__init__(params, **hyperparameters)
        if variant == "hf" and self.h.relative_step and self.h.lr is not None:
            raise ValueError(f"lr must be None with relative_step=True, got {self.h.lr}")
        if variant == "hf" and self.h.warmup_init and not self.h.relative_step:
            raise ValueError("warmup_init=True needs relative_step=True")

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        return self.torch_rule(p, g, s, t) if self.variant == "torch" else self.hf_rule(p, g, s, t)

    def torch_rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        eps1, eps2 = h.eps
        if eps1 is None:
            eps1 = np.finfo(np.float64).eps  # of the parameter's dtype: pass it to imitate other dtypes
        rho = min(h.lr, 1 / np.sqrt(t))
        a = max(eps2, rms(p)) * rho
        p = p * (1 - h.lr * h.weight_decay)
        w = t**h.beta2_decay  # 1 - beta2 at step t
        if g.ndim > 1:
            row = (1 - w) * s.get("row_var", 0.0) + w * np.mean(g * g, axis=-1, keepdims=True)
            col = (1 - w) * s.get("col_var", 0.0) + w * np.mean(g * g, axis=-2, keepdims=True)
            s["row_var"], s["col_var"] = row, col
            v = row * col / np.maximum(np.mean(row, axis=-2, keepdims=True), eps1)
        else:
            v = (1 - w) * s.get("variance", 0.0) + w * g * g
            s["variance"] = v
        u = g / np.sqrt(np.maximum(v, eps1**2))
        return p - a * u / max(1, rms(u) / h.d)

    def hf_rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        eps1, eps2 = h.eps
        lr = h.lr
        if h.relative_step:
            lr = min(1e-6 * t if h.warmup_init else 1e-2, 1 / np.sqrt(t))
        if h.scale_parameter:
            lr = lr * max(eps2, rms(p))
        beta2 = 1 - t**h.decay_rate
        g2 = g * g + eps1
        if g.ndim > 1:
            row = beta2 * s.get("exp_avg_sq_row", 0.0) + (1 - beta2) * np.mean(g2, axis=-1)
            col = beta2 * s.get("exp_avg_sq_col", 0.0) + (1 - beta2) * np.mean(g2, axis=-2)
            s["exp_avg_sq_row"], s["exp_avg_sq_col"] = row, col
            row = row / np.mean(row, axis=-1, keepdims=True)
            u = g / np.sqrt(row)[..., :, None] / np.sqrt(col)[..., None, :]
        else:
            v = beta2 * s.get("exp_avg_sq", 0.0) + (1 - beta2) * g2
            s["exp_avg_sq"] = v
            u = g / np.sqrt(v)
        u = u / max(1, rms(u) / h.clip_threshold)
        u = u * lr
        if h.beta1 is not None:
            u = h.beta1 * s.get("exp_avg", 0.0) + (1 - h.beta1) * u
            s["exp_avg"] = u
        p = p - h.weight_decay * lr * p
        return p - u
