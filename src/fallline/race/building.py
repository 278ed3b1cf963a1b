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
from fallline.memory.live import held_by
from fallline.optim.optimizer import RuleOptimizer
from fallline.race.contestants import SCHEDULES, Contestant
from fallline.race.makers import Maker, maker_of

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
_AVERAGES: Mapping[str, Callable[..., Averaging]] = {
    "lawa_queue": LawaQueue.for_steps,
    "lawa_ema": LawaEma.for_steps,
    "weight_ema": WeightEma,
}
_BETAS = ("beta1", "beta2", "beta3")
SINGLE_BETAS = frozenset({*_BETAS, *(f"one_minus_{name}" for name in _BETAS)})
NUMBERS = (
    *(name for name in (*SCHEDULE_SETTINGS, *AVERAGE_SETTINGS) if name != "first_step"),
    *SINGLE_BETAS,
)
"""Settings that no registered optimizer has a default of, and that are numbers."""


def unknown_settings(maker: Maker, names: Iterable[str]) -> list[str]:
    """Names that neither the optimizer nor a schedule nor an average knows."""
    if maker.takes_anything:
        return []
    betas = _BETAS[: len(_default_betas(maker))]
    single = {*betas, *(f"one_minus_{name}" for name in betas)}
    return sorted(set(names) - {*maker.settings, *SCHEDULE_SETTINGS, *AVERAGE_SETTINGS, *single})


def idle_settings(contestant: Contestant, maker: Maker, names: Iterable[str]) -> dict[str, str]:
    """Settings of schedules and averages that cannot act in this contestant, and why."""
    taken = {*maker.settings, *taken_by_schedule(contestant.schedule), *taken_by_average(contestant.averaging)}
    if "warmup_steps" in maker.settings:
        taken.add("warmup_factor")
    found = {}
    for name in sorted(set(names) - taken):
        if name in SCHEDULE_SETTINGS:
            others = [other for other in SCHEDULES if name in taken_by_schedule(other)]
            found[name] = f"with schedule = {contestant.schedule!r}; it is for {', '.join(others)}"
        elif name in AVERAGE_SETTINGS:
            others = [other for other in _AVERAGES if name in taken_by_average(other)]
            now = f"with averaging = {contestant.averaging!r}" if contestant.averaging else "without averaging"
            found[name] = f"{now}; it is for {', '.join(others)}"
    return found


def taken_by_schedule(name: str) -> list[str]:
    """The settings that a schedule takes; lengths are given as shares of the training."""
    if name == "constant":
        return []
    lengths = {"warmup_factor": "warmup_steps", "decay_fraction": "decay_steps"}
    known = inspect.signature(getattr(schedules, name)).parameters
    return [setting for setting in SCHEDULE_SETTINGS if setting in known or lengths.get(setting) in known]


def taken_by_average(name: str | None) -> list[str]:
    if name is None:
        return []
    known = inspect.signature(_AVERAGES[name]).parameters
    return [setting for setting in AVERAGE_SETTINGS if setting.removeprefix("average_") in known]


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

    @property
    def attributes(self) -> dict[str, Any]:
        """What a class in plain torch keeps beside its state and groups, such as a count of steps.

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
        state = self.optimizer.state_dict()
        return held_by({key: value for key, value in state.items() if key != "param_groups"})


def _is_plain(value: Any) -> bool:
    """Whether a checkpoint can hold it that is read without unpickling anything else."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(isinstance(key, str | int) and _is_plain(item) for key, item in value.items())
    if isinstance(value, torch.Tensor):
        return not isinstance(value, nn.Parameter)
    return value is None or type(value) in (bool, int, float, str)


def build(contestant: Contestant, point: Mapping[str, Any], model: nn.Module, total_steps: int) -> Built:
    """``total_steps`` is the length that schedules and averages count on."""
    maker = maker_of(contestant.optimizer)
    options, schedule, average = _sorted(point, maker)
    given = schedule.pop("warmup_factor", None)
    warmup = 0.0 if given is None else float(given)
    if given is not None and "warmup_steps" in maker.settings:
        options["warmup_steps"] = int(warmup * total_steps)
    converge = options.pop("converge", None)
    if converge is not None and "lr" not in options:
        from fallline.optimizers.amos_algoperf import amos_lr

        share = warmup or options.get("warmup_steps", 0) / total_steps
        options["lr"] = amos_lr(model.parameters(), total_steps, share, float(converge))
    optimizer = maker.make(model, options)
    rate = _rate(contestant.schedule, schedule, warmup, total_steps)
    if rate is not None:
        _keep_peaks(optimizer, contestant.schedule)
    if contestant.averaging is not None:
        optimizer = _averaged(contestant.averaging, optimizer, average, total_steps)
    return Built(optimizer, rate, hasattr(optimizer, "eval") and hasattr(optimizer, "train"))


def _keep_peaks(optimizer: torch.optim.Optimizer, schedule: str) -> None:
    for group in optimizer.param_groups:
        if "lr" not in group:
            name = type(optimizer).__name__
            raise ValueError(f'{name} has no lr that {schedule} could set; take schedule = "constant"')
        group["initial_lr"] = group["lr"]


def _sorted(point: Mapping[str, Any], maker: Maker) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Settings of the optimizer, of its schedule and of its average; single betas put into the tuple."""
    options: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    average: dict[str, Any] = {}
    betas = list(point.get("betas", _default_betas(maker)))
    for name, value in point.items():
        single = name.removeprefix("one_minus_")
        its_own = name in maker.settings
        if name == "betas":
            continue
        if name in SCHEDULE_SETTINGS and not its_own:
            schedule[name] = value
        elif name in AVERAGE_SETTINGS and not its_own:
            average[name.removeprefix("average_")] = value
        elif single in _BETAS[: len(betas)] and not its_own:
            betas[_BETAS.index(single)] = value if single == name else 1.0 - value
        else:
            options[name] = tuple(value) if isinstance(value, list) else value
    if betas and tuple(betas) != _default_betas(maker):
        options["betas"] = tuple(betas)
    return options, schedule, average


def _default_betas(maker: Maker) -> tuple[float, ...]:
    betas = maker.defaults.get("betas")
    return tuple(betas) if isinstance(betas, list | tuple) else ()


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
    lengths = () if name == "weight_ema" else (total,)
    return _AVERAGES[name](optimizer, *lengths, **settings)
