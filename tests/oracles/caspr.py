"""CASPR Adaptive, AlgoPerf v0.5 caspr_adaptive_helper.py.

The authors' kernels have inputs first: the equations are theirs, on the transposed matrix.
"""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-4, matrix_eps=1e-6, block_size=1024,
        precondition_frequency=20, start_preconditioning_step=101, root="newton", offset=0, begin=1,
    )  # fmt: skip
    """Staggered, refreshes are ``offset`` steps early, and from ``begin`` on."""

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        m = beta1 * s.get("exp_avg", np.zeros_like(p)) + (1 - beta1) * g
        v = beta2 * s.get("exp_avg_sq", np.zeros_like(p)) + (1 - beta2) * g * g
        s["exp_avg"], s["exp_avg_sq"] = m, v
        ahead = (beta1 * m + (1 - beta1) * g) / (1 - beta1**t)
        u = ahead / (np.sqrt(v / (1 - beta2**t)) + h.eps)
        if p.ndim > 1:
            turned = np.empty((p.size // len(p), len(p)))
            gradient, momentum = g.reshape(len(p), -1).T, ahead.reshape(len(p), -1).T
            for i in range(0, turned.shape[0], h.block_size):
                for j in range(0, turned.shape[1], h.block_size):
                    where = (slice(i, i + h.block_size), slice(j, j + h.block_size))
                    turned[where] = self.block(gradient[where], momentum[where], s, f"{i}.{j}", t)
            if t > h.start_preconditioning_step:
                u = (turned * np.linalg.norm(u) / np.linalg.norm(turned)).T.reshape(p.shape)
        return np.asarray(p - h.lr * (u + h.weight_decay * p))

    def block(self, g: Array, momentum: Array, s: State, name: str, t: int) -> Array:
        h = self.h
        beta2, every = h.betas[1], h.precondition_frequency
        n, k = g.shape
        left, right = s.get("l" + name, h.matrix_eps * np.eye(n)), s.get("r" + name, np.eye(k))
        p_left, p_right = s.get("pl" + name, np.eye(n)), s.get("pr" + name, np.eye(k))
        before = s.get("b" + name, h.matrix_eps * np.eye(n))
        kappa = 1.0
        if t > max(1, h.begin) and (t - 1 + h.offset) % every == 0:
            kappa = max(0.0, float(np.trace(p_left @ damped(before, h.matrix_eps) @ p_left))) / n
            before = left
        left = beta2 * left + (1 - beta2) * g @ g.T
        half = p_left @ g
        right = beta2 * kappa * right + (1 - beta2) * half.T @ half / n
        if t >= h.begin and (t + h.offset) % every == 0:
            p_left, p_right = root(left, h.matrix_eps), root(right, h.matrix_eps)
        s.update({"l" + name: left, "r" + name: right, "pl" + name: p_left, "pr" + name: p_right, "b" + name: before})
        return np.asarray(p_left @ momentum @ p_right)


def damped(a: Array, eps: float) -> Array:
    return np.asarray(a + eps * np.linalg.eigvalsh(a)[-1] * np.eye(len(a)))


def root(a: Array, eps: float) -> Array:
    values, q = np.linalg.eigh(damped(a, eps))
    return np.asarray((q * values**-0.5) @ q.T)
