r"""Gradient descent with a backtracking line search: no learning rate to tune, several evaluations per step.

It needs full gradients: with a new mini-batch at every evaluation, losses could not be compared.

.. math::
    \theta \leftarrow \theta - t\,\alpha\,g, \quad t \;\text{the first of}\; 1, \rho, \rho^2, …
    \;\text{with}\; f(\theta - t\alpha g) \le f(\theta) - c\,t\,\alpha\,\|g\|^2

Arguments:
    lr: α, the first step that is tried; a large value is safe and only costs evaluations.
    sufficient: c of Armijo's condition, the share of the decrease predicted by the slope that is enough.
    shrink: ρ.
    max_trials: the number of trials after which the weights stay as they are, and ``step_size`` is 0.

All groups share one t, and α‖g‖² is summed over them.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> opt = fallline.LineSearchGD([w], lr=1.0)
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (w[0] ** 2 + 10 * w[1] ** 2) / 2
    ...     loss.backward()
    ...     return loss
    >>> losses = [opt.step(closure).item() for _ in range(20)]
    >>> (losses[0], opt.step_size, losses[-1] < 1e-3)
    (5.5, 0.125, True)

References:
    Armijo 1966, Minimization of functions having Lipschitz continuous first partial derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fallline.rules.annotations import Range, positive

_open_fraction = Range("in (0, 1)", lambda x: 0 < x < 1)
_trials = Range("a whole number >= 1", lambda x: x >= 1 and x.is_integer())


class LineSearchGD(torch.optim.Optimizer):
    __doc__ = __doc__

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        sufficient: float = 1e-4,
        shrink: float = 0.5,
        max_trials: int = 40,
    ):
        positive.check("lr", lr)
        _open_fraction.check("sufficient", sufficient)
        _open_fraction.check("shrink", shrink)
        _trials.check("max_trials", max_trials)
        self.sufficient, self.shrink, self.max_trials = sufficient, shrink, max_trials
        self.step_size = math.nan
        """The factor t of the last step; 0 if no trial was good enough."""
        self.evaluations = 0
        """The number of calls of the closure so far."""
        super().__init__(params, {"lr": lr})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            positive.check("lr", self.param_groups[-1]["lr"])
        except Exception:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one search and returns the loss before it.  The closure zeroes the gradients, computes the loss, calls
        ``backward()`` and returns the loss."""
        if closure is None:
            raise TypeError("LineSearchGD compares losses, so it needs a closure that computes one: step(closure)")
        before = self._evaluate(closure)
        loss = float(before)
        if not math.isfinite(loss):
            raise ValueError(f"the loss is {loss:g} before the step, so no step can be compared with it")
        moves = [
            (param, param.detach().clone(), float(group["lr"]) * param.grad)
            for group in self.param_groups
            for param in group["params"]
            if param.grad is not None
        ]
        promised = sum(float((param.grad * move).sum()) for param, _, move in moves)
        self.step_size = self._search(closure, moves, loss, promised) if promised > 0 else 0.0
        return before

    def _search(
        self,
        closure: Callable[[], Any],
        moves: list[tuple[Tensor, Tensor, Tensor]],
        loss: float,
        promised: float,
    ) -> float:
        t = 1.0
        for _ in range(self.max_trials):
            for param, start, move in moves:
                param.copy_(start - t * move)
            # NaN is never <=, so that a step to an undefined loss is shortened like one that is too long.
            if float(self._evaluate(closure)) <= loss - self.sufficient * t * promised:
                return t
            t *= self.shrink
        for param, start, _ in moves:
            param.copy_(start)
        return 0.0

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        self.evaluations += 1
        with torch.enable_grad():
            return closure()
