r"""Exponential moving average of the weights, taken after every update.

Use it for evaluation and for the weights that you ship, as is usual for diffusion models and image
classifiers.  A decay of 0.999 averages about the last thousand updates, so that short trainings need a smaller
decay, or the warm-up.

.. math::
    a_0 &= \theta_0 \;\text{(after the first update, } s = 0\text{)} \\
    a_s &= \beta_s\, a_{s-1} + (1-\beta_s)\,\theta_s, \qquad
    \beta_s = \beta \;\text{ or, with warm-up, }\; \min\!\left(\beta, \frac{1+s}{10+s}\right)

Arguments:
    optimizer: any optimizer of torch or fallline; ``avg.step()`` steps it.
    decay: β.
    warmup: begin with small decays, so that the first weights are soon forgotten.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.tensor([4.0]))
    >>> avg = fallline.WeightEma(fallline.SGD([w], lr=0.25), decay=0.75)
    >>> for _ in range(2):
    ...     avg.zero_grad()
    ...     w.square().sum().backward()
    ...     avg.step()
    >>> avg.eval()
    >>> w.item()
    1.75
    >>> avg.train()
    >>> w.item()
    1.0

The average begins as a copy of the first updated weights, as torch's ``AveragedModel`` does.  The warm-up is
TensorFlow's, counted as in Hugging Face's diffusers.

References:
    Polyak & Juditsky 1992, Acceleration of stochastic approximation by averaging.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from fallline.averaging.ema import ExponentialAverage
from fallline.rules.annotations import fraction, static


class WeightEma(ExponentialAverage):
    __doc__ = __doc__
    kind = "weight_ema"
    settings: ClassVar = {"decay": fraction, "warmup": static}
    decay: float
    warmup: bool

    def __init__(self, optimizer: torch.optim.Optimizer, decay: float = 0.999, warmup: bool = False):
        super().__init__(optimizer, decay=decay, warmup=warmup)

    def _update(self) -> None:
        s = self.updates
        self._take(min(self.decay, (1 + s) / (10 + s)) if self.warmup else self.decay)
