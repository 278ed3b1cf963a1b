"""Amos, the original form of google-research/jestimator amos.py (arXiv 2210.11693).

eta is one number per parameter, or one for all. `shapes` gives the reduced shapes of v and b, one per
parameter: None for no reduction, () for a scalar, otherwise a shape that broadcasts to the parameter.
"""

from collections.abc import Sequence

import numpy as np

from tests.oracles.base import REQUIRED, Array, BaseOracle


def reduced_mean(x: Array, shape: tuple[int, ...] | None) -> Array:
    if shape is None:
        return x
    if shape == ():
        return np.asarray(np.mean(x))
    axes = tuple(axis for axis, size in enumerate(shape) if size < x.shape[axis])
    return np.asarray(np.mean(x, axis=axes, keepdims=True))


class Oracle(BaseOracle):
    defaults = dict(
        lr=REQUIRED,
        eta=REQUIRED,
        shapes=None,
        beta=0.999,
        momentum=None,
        clip_value=None,
        extra_l2=0.0,
        c_coef=0.25,
        d_coef=0.25,
        epsilon=2.0**-125,
    )

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        for i, g in enumerate(self.gradients(grads)):
            if g is None:
                continue
            self.steps[i] += 1
            p, s, t = self.params[i], self.states[i], self.steps[i]
            eta = h.eta[i] if isinstance(h.eta, Sequence) else h.eta
            shape = None if h.shapes is None else h.shapes[i]
            if h.clip_value:
                g = np.clip(g, -h.clip_value, h.clip_value)
            g2 = reduced_mean(g * g, shape)
            v = h.beta * s.get("v", 0.0) + (1 - h.beta) * g2
            b = s.get("b", np.zeros_like(v))
            r = (1 - h.beta**t) / np.maximum(v, h.epsilon)
            gamma = h.lr**2 * r * g2 / np.sqrt(1 + h.c_coef * np.sqrt(h.lr) * b)
            decay = 1 + h.d_coef * np.sqrt(h.lr * eta) * b
            delta = ((-0.5 * gamma - h.extra_l2) * p - h.lr * eta * np.sqrt(r) * g) / decay
            s["v"], s["b"] = v, b + gamma * (1 + b)
            if h.momentum:
                delta = h.momentum * s.get("ema", 0.0) + (1 - h.momentum) * delta
                s["ema"] = delta
            self.store(i, p + delta)
