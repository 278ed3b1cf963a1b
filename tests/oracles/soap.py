"""SOAP, nikhilvyas/SOAP soap.py: the first call begins and moves nothing; t counts the calls after it."""

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=3e-3, betas=(0.95, 0.95), shampoo_beta=None, eps=1e-8, weight_decay=0.01, precondition_frequency=10,
        max_precond_dim=10000, correct_bias=True,
    )  # fmt: skip

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        decay = beta2 if h.shampoo_beta is None else h.shampoo_beta
        axes = [i for i, n in enumerate(p.shape) if p.ndim > 1 and n <= h.max_precond_dim]
        if t == 1:
            for i in axes:
                s[f"gg{i}"] = (1 - decay) * outer(g, i)
                s[f"q{i}"] = np.linalg.eigh(s[f"gg{i}"])[1][:, ::-1]
            return p
        t -= 1
        r = turned(g, {i: s[f"q{i}"].T for i in axes})
        m = beta1 * s.get("m", np.zeros_like(p)) + (1 - beta1) * r
        v = beta2 * s.get("v", np.zeros_like(p)) + (1 - beta2) * r * r
        rate = h.lr * (np.sqrt(1 - beta2**t) / (1 - beta1**t) if h.correct_bias else 1.0)
        p = p - rate * turned(m / (np.sqrt(v) + h.eps), {i: s[f"q{i}"] for i in axes})
        p = p * (1 - h.lr * h.weight_decay)
        for i in axes:
            s[f"gg{i}"] = decay * s[f"gg{i}"] + (1 - decay) * outer(g, i)
        if axes and t % h.precondition_frequency == 0:
            m = turned(m, {i: s[f"q{i}"] for i in axes})
            for i in axes:
                q, gg = s[f"q{i}"], s[f"gg{i}"]
                order = np.argsort(-np.diag(q.T @ gg @ q), kind="stable")
                v = np.take(v, order, axis=i)
                s[f"q{i}"] = np.linalg.qr(gg @ q[:, order])[0]
            m = turned(m, {i: s[f"q{i}"].T for i in axes})
        s["m"], s["v"] = m, v
        return np.asarray(p)


def outer(g: Array, axis: int) -> Array:
    m = np.moveaxis(g, axis, 0).reshape(g.shape[axis], -1)
    return np.asarray(m @ m.T)


def turned(x: Array, matrices: dict[int, Array]) -> Array:
    for axis, matrix in matrices.items():
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x
