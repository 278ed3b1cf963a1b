"""QHM as in facebookresearch/qhoptim pyt/qhm.py; the buffer is an average, so lr is 1/(1-beta) of SGD's."""

from tests.oracles.base import REQUIRED, Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=REQUIRED, momentum=REQUIRED, nu=REQUIRED, weight_decay=0.0, weight_decay_type="grad")

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        if h.weight_decay_type == "grad":
            g = g + h.weight_decay * p
        elif h.weight_decay_type == "direct":
            p = p * (1 - h.lr * h.weight_decay)
        else:
            raise ValueError(f"weight_decay_type must be 'grad' or 'direct', got {h.weight_decay_type!r}")
        b = h.momentum * s.get("momentum_buffer", 0.0) + (1 - h.momentum) * g
        s["momentum_buffer"] = b
        return p - h.lr * (h.nu * b + (1 - h.nu) * g)
