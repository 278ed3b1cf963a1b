"""Amos as AlgoPerf's entry has it, mlcommons/submissions_algorithms amos/submission.py (v0.5).

`shapes` gives the reduced shapes, one per parameter: () for a number per tensor, otherwise a shape that
broadcasts to the parameter.  v is kept as a mean, where the source keeps a sum.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import REQUIRED, Array, BaseOracle

TINY = float(np.finfo(np.float32).tiny)


def reduced_mean(x: Array, shape: tuple[int, ...]) -> Array:
    if shape == ():
        return np.asarray(np.mean(x))
    return np.asarray(np.mean(x, axis=tuple(i for i, size in enumerate(shape) if size == 1), keepdims=True))


class Oracle(BaseOracle):
    defaults: dict[str, Any] = dict(
        lr=REQUIRED,
        eta=REQUIRED,
        shapes=REQUIRED,
        style="adam",
        betas=(0.95, 0.999),
        l2=2e-3,
        warmup_steps=0,
        max_grad_norm=1.0,
    )

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        given = self.gradients(grads)
        norm = np.sqrt(sum(np.sum(g * g) for g in given if g is not None))
        for i, g in enumerate(given):
            if g is None:
                continue
            if norm >= h.max_grad_norm:
                g = g / norm * h.max_grad_norm
            self.steps[i] += 1
            self.one(i, g, self.steps[i])

    def one(self, i: int, g: Array, t: int) -> None:
        h, p, s, shape = self.h, self.params[i], self.states[i], self.h.shapes[i]
        eta = h.eta[i] if isinstance(h.eta, Sequence) else h.eta
        beta1, beta2 = h.betas
        xi = h.lr * min(1.0, t / h.warmup_steps) if h.warmup_steps > 0 else h.lr
        adam = h.style == "adam"

        v = s.get("v", np.zeros_like(p) if adam else np.zeros_like(reduced_mean(p, shape)))
        g2 = g * g
        if t > 1:
            v_hat = v / (1 - beta2 ** (t - 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(v_hat > 0, g2 * (1 - beta2) / v_hat, 1.0)
            rho = np.maximum(ratio, 1.0)
            g, g2 = g / np.sqrt(rho), g2 / rho

        if adam:
            m = beta1 * s.get("m", np.zeros_like(p)) + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g2
            v_hat = v / (1 - beta2**t)
            u = m / np.sqrt(np.maximum(v_hat, TINY))
            square = (1 + beta1) / (1 - beta1) * reduced_mean(m * m, shape)
            square = square / np.maximum(reduced_mean(v_hat, shape), TINY)
            b = s.get("b", np.zeros_like(square))
            s["m"] = m
        else:
            reduced = reduced_mean(g2, shape)
            v = beta2 * v + (1 - beta2) * reduced
            v_hat = np.maximum(v / (1 - beta2**t), TINY)
            u = g / np.sqrt(v_hat)
            square = reduced / v_hat
            b = s.get("b", np.zeros(()))
        s["v"] = v

        root_k = np.sqrt(p.size / square.size)
        q = np.sqrt(1 - 1 / root_k)
        tau = q * np.log(root_k * (1 + q) ** 2)
        root = np.sqrt(1 + b)
        rate = xi**2 / (np.maximum(square, root) if adam else root)
        l2p = 1 + h.l2 * ((1 + 0.5 * tau) ** 2 - 1) ** 2
        l2q = 1 + h.l2 * b * b
        decay = -0.5 * rate * (l2p / l2q * square + h.l2)
        grown = (2 * root / (1 + np.sqrt(1 + 2 / (2 + tau) * root))) ** 2 - 1
        l2r = (1 + h.l2 * b * grown) / (1 + h.l2 / l2p * l2q)
        delta = (decay * p - eta * xi * u) / (1 + eta * root * l2r * grown)
        s["b"] = b + rate * ((square if adam else 1.0) / root_k + b)
        if not adam:
            delta = s["m"] = beta1 * s.get("m", np.zeros_like(p)) + (1 - beta1) * delta
        self.store(i, p + delta)
