"""Distributed Shampoo, facebookresearch/optimizers distributed_shampoo.py; AlgoPerf's merges from the first axis."""

import itertools

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=1e-2, betas=(0.9, 1.0), beta3=None, epsilon=1e-12, weight_decay=0.0, decoupled_weight_decay=True,
        max_preconditioner_dim=1024, merge_dims="last", precondition_frequency=1, start_preconditioning_step=None,
        use_bias_correction=True, inverse_exponent=None, grafting=None, grafting_beta2=0.999, grafting_epsilon=1e-10,
        momentum=0.0, dampening=0.0, use_nesterov=False, use_nadam=False,
    )  # fmt: skip

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1, beta2 = h.betas
        beta3 = beta1 if h.beta3 is None else h.beta3
        frequency = h.precondition_frequency
        start = h.start_preconditioning_step or frequency
        if not h.decoupled_weight_decay:
            g = g + h.weight_decay * p
        shape = merged(p.shape, h.max_preconditioner_dim, h.merge_dims)
        parts = blocks(shape, h.max_preconditioner_dim)
        order = len(shape)
        exponent = h.inverse_exponent or 1 / (2 * order)
        refresh = t >= start and (t == start or t % frequency == 0)
        whole = g.reshape(shape)
        for b, where in enumerate(parts):
            for axis in range(order):
                m = np.moveaxis(whole[where], axis, 0).reshape(whole[where].shape[axis], -1)
                name = f"{b}.{axis}"
                a = s.get("a" + name, np.zeros((len(m), len(m))))
                a = beta2 * a + (1.0 if beta2 == 1 else 1 - beta2) * (m @ m.T)
                s["a" + name] = a
                if refresh:
                    corrected = a / (1 - beta2**t) if h.use_bias_correction and beta2 < 1 else a
                    values, q = np.linalg.eigh(corrected)
                    values = values - min(values.min(), 0.0) + h.epsilon
                    s["p" + name] = (q * values**-exponent) @ q.T
        m = s.get("exp_avg", np.zeros_like(p))
        if beta1 == 0:
            filtered = g
        elif h.use_nadam:
            new = beta1 * m + (1 - beta1) * g
            filtered = (beta1 * new + (1 - beta1) * g) / (1 - beta1**t if h.use_bias_correction else 1.0)
        else:
            filtered = beta3 * m + (1 - beta3) * g
            filtered = filtered / (1 - beta3 * beta1 ** (t - 1) if h.use_bias_correction else 1.0)
        s["exp_avg"] = beta1 * m + (1 - beta1) * g
        grafted = filtered
        if h.grafting in ("adagrad", "rmsprop", "adam"):
            v = s.get("exp_avg_sq", np.zeros_like(p))
            v = v + g * g if h.grafting == "adagrad" else h.grafting_beta2 * v + (1 - h.grafting_beta2) * g * g
            s["exp_avg_sq"] = v
            if h.grafting == "adam":
                v = v / (1 - h.grafting_beta2**t)
            grafted = filtered / (np.sqrt(v) + h.grafting_epsilon)
        u = grafted
        if t >= start:
            u = np.empty(shape)
            for b, where in enumerate(parts):
                part = filtered.reshape(shape)[where]
                for axis in range(order):
                    part = np.moveaxis(np.tensordot(s[f"p{b}.{axis}"], part, (1, axis)), 0, axis)
                if h.grafting is not None:
                    part = part * np.linalg.norm(grafted.reshape(shape)[where]) / (np.linalg.norm(part) + 1e-16)
                u[where] = part
            u = u.reshape(p.shape)
        if h.decoupled_weight_decay:
            u = u + h.weight_decay * p
        if h.momentum:
            buffer = h.momentum * s.get("momentum_buffer", np.zeros_like(p)) + (1 - h.dampening) * u
            s["momentum_buffer"] = buffer
            u = (1 - h.dampening) * u + h.momentum * buffer if h.use_nesterov else buffer
        return np.asarray(p - h.lr * u)


def merged(shape: tuple[int, ...], limit: int, merge: str) -> tuple[int, ...]:
    if merge == "none":
        return shape or (1,)
    axes = [n for n in shape if n != 1] or [1]
    if merge == "last":
        axes.reverse()
    found = axes[:1]
    for n in axes[1:]:
        if found[-1] * n <= limit:
            found[-1] *= n
        else:
            found.append(n)
    return tuple(reversed(found)) if merge == "last" else tuple(found)


def blocks(shape: tuple[int, ...], limit: int) -> list[tuple[slice, ...]]:
    return list(itertools.product(*[[slice(i, min(i + limit, n)) for i in range(0, n, limit)] for n in shape]))
