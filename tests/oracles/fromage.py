"""Fromage from the paper (Bernstein et al. 2020, arXiv 2002.03432), with the optional bound on the norm."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracles.base import Array, BaseOracle


class Oracle(BaseOracle):
    defaults = dict(lr=1e-2, p_bound=None)

    def __init__(self, params: Sequence[Array], **hyperparameters: Any) -> None:
        super().__init__(params, **hyperparameters)
        self.initial_norms = [np.sqrt(np.sum(p * p)) for p in self.params]

    def step(self, grads: Sequence[Array | None]) -> None:
        h = self.h
        for i, g in enumerate(self.gradients(grads)):
            if g is None:
                continue
            p = self.params[i]
            p_norm, g_norm = np.sqrt(np.sum(p * p)), np.sqrt(np.sum(g * g))
            if p_norm > 0 and g_norm > 0:
                p = p - h.lr * p_norm / g_norm * g
            else:
                p = p - h.lr * g
            p = p / np.sqrt(1 + h.lr**2)
            if h.p_bound is not None:
                p_norm, bound = np.sqrt(np.sum(p * p)), h.p_bound * self.initial_norms[i]
                if p_norm > bound:
                    p = p * (bound / p_norm)
            self.store(i, p)
