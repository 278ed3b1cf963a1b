"""SGD as in torch/optim/sgd.py: momentum, dampening, Nesterov, coupled weight decay."""

from tests.oracles.base import Array, BaseOracle, State


class Oracle(BaseOracle):
    defaults = dict(lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False)

    def rule(self, p: Array, g: Array, s: State, t: int) -> Array:
        h = self.h
        g = g + h.weight_decay * p
        if h.momentum == 0:
            return p - h.lr * g
        if "momentum_buffer" in s:
            buf = h.momentum * s["momentum_buffer"] + (1 - h.dampening) * g
        else:
            buf = g  # the first buffer is the gradient itself, not dampened
        s["momentum_buffer"] = buf
        d = g + h.momentum * buf if h.nesterov else buf
        return p - h.lr * d
