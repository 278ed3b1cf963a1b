"""The exponential average that `LawaEma` and `WeightEma` share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fallline.averaging.swap import exchange, local
from fallline.averaging.wrapper import Averaging


class ExponentialAverage(Averaging):
    """a ← βa + (1−β)θ, beginning as a copy of θ.

    The average is one copy of the model, in float32 for 16-bit parameters, because in bfloat16 an average with
    β = 0.999 would not move.  ``eval()`` exchanges the average and the raw weights and allocates nothing; 16-bit
    parameters are instead rounded from the average, and their raw weights are kept aside until ``train()``.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, **settings: Any):
        super().__init__(optimizer, **settings)
        self._average: dict[Tensor, Tensor] = {}

    def _kept_dtype(self, param: Tensor) -> torch.dtype:
        return torch.float32 if param.dtype in (torch.bfloat16, torch.float16) else param.dtype

    @torch.no_grad()
    def _take(self, beta: float) -> None:
        """Averages the weights as they are now."""
        averages: list[Tensor] = []
        weights: list[Tensor] = []
        for param in self.params():
            average = self._average.get(param)
            if average is None:
                self._average[param] = param.detach().to(self._kept_dtype(param), copy=True)
            elif average.dtype == param.dtype:
                averages.append(local(average))
                weights.append(local(param))
            else:
                local(average).lerp_(local(param).to(average.dtype), 1.0 - beta)
        if averages:
            torch._foreach_lerp_(averages, weights, 1.0 - beta)

    def _swap_in(self, param: Tensor) -> Tensor | None:
        average = self._average.get(param)
        if average is None:
            return None
        if average.dtype == param.dtype:
            exchange(param, average)
            return self._average.pop(param)
        raw = param.detach().clone()
        param.detach().copy_(average)
        return raw

    def _swap_out(self, param: Tensor, raw: Tensor) -> None:
        if param in self._average:
            param.detach().copy_(raw)
        else:
            exchange(param, raw)
            self._average[param] = raw

    def _kept(self) -> dict[Tensor, list[Tensor]]:
        return {param: [average] for param, average in self._average.items()}

    def _keep(self, kept: dict[Tensor, list[Tensor]]) -> None:
        self._average = {param: average for param, (average,) in kept.items()}

    def _check_loaded(self, settings: dict[str, Any], kept: dict[Tensor, list[Tensor]]) -> None:
        for tensors in kept.values():
            if len(tensors) != 1:
                raise ValueError(f"the checkpoint has {len(tensors)} averages of one parameter; there should be 1")

    @property
    def ready(self) -> bool:
        """Whether there is an average; without one, ``eval()`` leaves the raw weights."""
        return bool(self._average or self._raw)
