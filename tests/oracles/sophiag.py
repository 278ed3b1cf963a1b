"""SophiaG as in Liuhong99/Sophia sophia.py. Until the first update_hessian the step is sign descent."""

from collections.abc import Sequence

import numpy as np

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    # bs is an argument of the authors' step(): the tokens per optimizer step.
    defaults = dict(lr=1e-4, betas=(0.965, 0.99), rho=0.04, weight_decay=0.1, bs=5120)

    def update_hessian(self, grads: Sequence[Array | None]) -> None:
        """Takes gradients of the loss on labels sampled from the model."""
        beta2 = self.h.betas[1]
        for i, g in enumerate(self.gradients(grads)):
            if g is not None:
                s = self.states[i]
                s.setdefault("exp_avg", np.zeros_like(g))
                s["hessian"] = beta2 * s.get("hessian", 0.0) + (1 - beta2) * g * g
                self.store(i, self.params[i])

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        beta1 = h.betas[0]
        p = p * (1 - h.lr * h.weight_decay)
        m = beta1 * s.get("exp_avg", 0.0) + (1 - beta1) * g
        hess = s.get("hessian", np.zeros_like(g))
        s["exp_avg"], s["hessian"] = m, hess
        return p - h.lr * np.sign(m) * np.minimum(1, np.abs(m) / (h.rho * h.bs * hess + 1e-15))
