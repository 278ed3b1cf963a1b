"""torch's ``LRScheduler`` from a function of the number of updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.optim.lr_scheduler import LRScheduler


class ClosedForm(LRScheduler):
    """Sets each group's rate to ``form(s, peak, **settings)``, where s is the number of updates done and peak is the
    group's initial rate.

    No rate depends on the one before, so that a run continued from a checkpoint has exactly the same rates.
    ``state_dict()`` holds numbers and strings only.  Call ``step()`` after each ``optimizer.step()``.
    """

    form: ClassVar[Callable[..., Any]]

    def __init__(self, optimizer: torch.optim.Optimizer, last_epoch: int = -1, **settings: Any):
        # This evaluation checks the arguments before the optimizer is changed.
        type(self).form(0, 1.0, **settings)
        self.settings = settings
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        # Groups may be added during training, which torch's own schedulers do not allow.
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:
            rate = group.setdefault("initial_lr", group["lr"])
            self.base_lrs.append(rate.clone() if isinstance(rate, torch.Tensor) else rate)
        return [type(self).form(self.last_epoch, peak, **self.settings) for peak in self.base_lrs]

    _get_closed_form_lr = get_lr
