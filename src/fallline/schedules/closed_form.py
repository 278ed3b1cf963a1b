"""torch's ``LRScheduler`` from a function of the number of updates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.optim.lr_scheduler import LRScheduler


class ClosedForm(LRScheduler):
    """Sets each group's rate to ``form(s, peak, **settings)``, where s is the number of updates done and peak is the
    group's initial rate.  The arguments of a schedule are the optimizer, the settings of its form, and ``last_epoch``.

    No rate depends on the one before, so that a run continued from a checkpoint has exactly the same rates.
    ``state_dict()`` holds numbers and strings only.  Call ``step()`` after each ``optimizer.step()``.

    >>> import torch, fallline
    >>> opt = fallline.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> schedule = fallline.WarmupCosine(opt, total_steps=6, warmup_steps=2)
    >>> rates = []
    >>> for _ in range(6):
    ...     rates.append(round(opt.param_groups[0]["lr"], 4))
    ...     opt.step()
    ...     schedule.step()
    >>> rates
    [0.0, 0.25, 0.5, 0.4268, 0.25, 0.0732]
    """

    form: ClassVar[Callable[..., Any]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        _, _, *settings = inspect.signature(cls.form).parameters.values()
        own = inspect.signature(ClosedForm.__init__).parameters
        cls.__signature__ = inspect.Signature([own["optimizer"], *settings, own["last_epoch"]])

    def __init__(self, optimizer: torch.optim.Optimizer, *args: Any, last_epoch: int = -1, **kwargs: Any):
        given = type(self).__signature__.bind(optimizer, *args, **kwargs)
        given.apply_defaults()
        settings = {name: value for name, value in given.arguments.items() if name not in ("optimizer", "last_epoch")}
        # This evaluation checks the arguments before the optimizer is changed.
        type(self).form(0, 1.0, **settings)
        self.settings = settings
        super().__init__(optimizer, last_epoch)

    def rate_after(self, updates: float, peak: Any) -> Any:
        """The rate after so many updates, of a group whose initial rate is ``peak``: the curve without a training."""
        return type(self).form(updates, peak, **self.settings)

    def get_lr(self) -> list[Any]:
        # Groups may be added during training, which torch's own schedulers do not allow.
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:
            rate = group.setdefault("initial_lr", group["lr"])
            self.base_lrs.append(rate.clone() if isinstance(rate, torch.Tensor) else rate)
        return [self.rate_after(self.last_epoch, peak) for peak in self.base_lrs]

    _get_closed_form_lr = get_lr
