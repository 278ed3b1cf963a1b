"""From a contestant and a point of its space to an optimizer whose rate follows its schedule."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from fallline import schedules
from fallline.averaging import LawaEma, LawaQueue, WeightEma
from fallline.averaging.wrapper import Averaging
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS
from fallline.optim.registry import create, find
from fallline.race.contestants import Contestant

SCHEDULE_SETTINGS = (
    "warmup_factor", "cosine_decay_fraction", "lr_end", "first_step", "cycles", "lr_min", "decay_fraction", "restarts",
)  # fmt: skip
AVERAGE_SETTINGS = (
    "average_beta",
    "average_start_fraction",
    "average_interval_fraction",
    "average_k",
    "average_decay",
    "average_warmup",
)
_BETAS = ("beta1", "beta2", "beta3")
NUMBERS = (*SCHEDULE_SETTINGS, *AVERAGE_SETTINGS, *_BETAS, *(f"one_minus_{name}" for name in _BETAS))
"""Settings that no optimizer has a default of, all of them numbers."""


def unknown_settings(defaults: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Names that neither the optimizer nor a schedule nor an average knows."""
    known = {*defaults, *GROUP_OPTIONS, *OPTIMIZER_OPTIONS, *SCHEDULE_SETTINGS, *AVERAGE_SETTINGS}
    known |= {"layer_lr_decay", "converge"}
    if "betas" in defaults:
        count = len(defaults["betas"])
        known |= {*_BETAS[:count], *(f"one_minus_{name}" for name in _BETAS[:count])}
    return sorted(set(names) - known)


@dataclasses.dataclass
class Built:
    """An optimizer ready to train, and what sets its rates."""

    optimizer: torch.optim.Optimizer
    rate: Callable[[int, Any], Any] | None
    """(updates done, peak) → learning rate; None keeps it."""
    has_modes: bool
    """Whether evaluation needs other weights than training."""

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


def build(contestant: Contestant, point: Mapping[str, Any], model: nn.Module, total_steps: int) -> Built:
    """``total_steps`` is the length that schedules and averages count on."""
    defaults = find(contestant.optimizer).defaults
    options, schedule, average = _sorted(point, defaults)
    warmup = float(schedule.pop("warmup_factor", 0.0))
    if "warmup_steps" in defaults:
        options["warmup_steps"] = int(warmup * total_steps)
    converge = options.pop("converge", None)
    if converge is not None and "lr" not in options:
        from fallline.optimizers.amos_algoperf import amos_lr

        options["lr"] = amos_lr(model.parameters(), total_steps, warmup, float(converge))
    optimizer: torch.optim.Optimizer = create(contestant.optimizer, model, **options)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    rate = _rate(contestant.schedule, schedule, warmup, total_steps)
    if contestant.averaging is not None:
        optimizer = _averaged(contestant.averaging, optimizer, average, total_steps)
    return Built(optimizer, rate, hasattr(optimizer, "eval") and hasattr(optimizer, "train"))


def _sorted(
    point: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Settings of the optimizer, of its schedule and of its average; single betas put into the tuple."""
    options: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    average: dict[str, Any] = {}
    betas = list(point.get("betas", defaults.get("betas", ())))
    for name, value in point.items():
        single = name.removeprefix("one_minus_")
        if name in SCHEDULE_SETTINGS:
            schedule[name] = value
        elif name in AVERAGE_SETTINGS:
            average[name.removeprefix("average_")] = value
        elif single in _BETAS[: len(betas)]:
            betas[_BETAS.index(single)] = value if single == name else 1.0 - value
        elif name != "betas":
            options[name] = tuple(value) if isinstance(value, list) else value
    if betas and tuple(betas) != tuple(defaults.get("betas", ())):
        options["betas"] = tuple(betas)
    return options, schedule, average


def _rate(name: str, settings: dict[str, Any], warmup: float, total: int) -> Callable[[int, Any], Any] | None:
    if name == "constant":
        return None
    form = getattr(schedules, name)
    arguments = {"total_steps": total, **settings}
    arguments["warmup_factor" if name == "nested_restarts" else "warmup_steps"] = (
        warmup if name == "nested_restarts" else int(warmup * total)
    )
    if name == "warmup_stable_decay":
        arguments["decay_steps"] = int(arguments.pop("decay_fraction", 0.2) * total)
    known = inspect.signature(form).parameters
    arguments = {key: value for key, value in arguments.items() if key in known}
    return lambda step, peak: form(step, peak, **arguments)


def _averaged(name: str, optimizer: torch.optim.Optimizer, settings: Mapping[str, Any], total: int) -> Averaging:
    if name == "lawa_queue":
        return LawaQueue.for_steps(optimizer, total, **settings)
    if name == "lawa_ema":
        return LawaEma.for_steps(optimizer, total, **settings)
    return WeightEma(optimizer, **settings)
