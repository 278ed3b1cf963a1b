"""An optimizer as a loop steps it: with rates that follow a schedule, its two modes, and what a checkpoint needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fallline.averaging.wrapper import Averaging
from fallline.optim.optimizer import RuleOptimizer


@dataclasses.dataclass
class ScheduledOptimizer:
    """An optimizer ready to train, and the schedule that sets its rates."""

    optimizer: torch.optim.Optimizer
    rate: Callable[[int, Any], Any] | None = None
    """(updates done, peak) → learning rate, the peak being a group's ``initial_lr``; None keeps the rate."""
    has_modes: bool = False
    """Whether evaluation needs other weights than training."""

    @classmethod
    def around(
        cls, optimizer: torch.optim.Optimizer, rate: Callable[[int, Any], Any] | None = None
    ) -> ScheduledOptimizer:
        """The rates that the groups have now are the peaks."""
        if rate is not None:
            for group in optimizer.param_groups:
                group["initial_lr"] = group["lr"]
        return cls(optimizer, rate, hasattr(optimizer, "eval") and hasattr(optimizer, "train"))

    def step(self) -> None:
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def set_rates(self, step: int) -> None:
        if self.rate is None:
            return
        rates: dict[Any, Any] = {}  # groups mostly share their peak
        for group in self.optimizer.param_groups:
            peak = group["initial_lr"]
            if peak not in rates:
                rates[peak] = self.rate(step, peak)
            group["lr"] = rates[peak]

    def to_evaluate(self) -> None:
        if self.has_modes:
            self.optimizer.eval()  # type: ignore[attr-defined]

    def to_train(self) -> None:
        if self.has_modes:
            self.optimizer.train()  # type: ignore[attr-defined]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that a class in plain torch keeps beside its state and groups, such as a count of steps.

        Numbers, texts, tensors and lists of these; never parameters, which are the model's.
        """
        inner = self._inner
        if isinstance(inner, RuleOptimizer):
            return {}
        kept = {name: value for name, value in vars(inner).items() if name not in ("state", "param_groups", "defaults")}
        return {name: value for name, value in kept.items() if _is_plain(value)}

    def restore(self, state: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        """To where a checkpoint was saved."""
        self.optimizer.load_state_dict(dict(state))
        vars(self._inner).update(attributes)

    @property
    def _inner(self) -> torch.optim.Optimizer:
        inner: torch.optim.Optimizer = self.optimizer
        return inner.optimizer if isinstance(inner, Averaging) else inner

    def state_bytes(self) -> int:
        """Memory of the optimizer's states, the average's too."""
        seen: dict[int, int] = {}

        def visit(value: Any) -> None:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                seen[storage.data_ptr()] = storage.nbytes()
            elif isinstance(value, Mapping):
                for item in value.values():
                    visit(item)
            elif isinstance(value, list | tuple):
                for item in value:
                    visit(item)

        state = self.optimizer.state_dict()
        visit({key: value for key, value in state.items() if key != "param_groups"})
        return sum(seen.values())


def _is_plain(value: Any) -> bool:
    """Whether a checkpoint can hold it that is read without unpickling anything else."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(isinstance(key, str | int) and _is_plain(item) for key, item in value.items())
    if isinstance(value, torch.Tensor):
        return not isinstance(value, nn.Parameter)
    return value is None or type(value) in (bool, int, float, str)
