"""SGDP as in clovaai/AdamP adamp/sgdp.py: momentum SGD with AdamP's projection.

Unlike torch's SGD the first buffer is dampened. Without Nesterov the projection is written back into the
buffer.
"""

from tests.oracles.adamp import project
from tests.oracles.base import REQUIRED, Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(
        lr=REQUIRED,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        nesterov=False,
        eps=1e-8,
        delta=0.1,
        wd_ratio=0.1,
    )

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        buf = h.momentum * s.get("momentum", 0.0) + (1 - h.dampening) * g
        d = g + h.momentum * buf if h.nesterov else buf
        w = 1.0
        if p.ndim > 1:
            d, w = project(p, g, d, h.eps, h.delta, h.wd_ratio)
        s["momentum"] = buf if h.nesterov else d
        if h.weight_decay > 0:
            p = p * (1 - h.lr * h.weight_decay * w / (1 - h.momentum))
        return p - h.lr * d
