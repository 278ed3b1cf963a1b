"""Makes an optimizer that is ready to train a model, from its name and its settings.

An optimizer is registered or a user's own; a schedule and an average of weights may go with it.  Settings come in one
flat table, as search spaces have them, and are sorted here.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from fallline import schedules
from fallline.averaging import LawaEma, LawaQueue, WeightEma
from fallline.averaging.wrapper import Averaging
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS
from fallline.optim.registry import create, find, for_model
from fallline.optimizers.amos_algoperf import amos_lr
from fallline.training.optimizer_files import class_of, is_file, parameters_of, parts
from fallline.training.scheduled_optimizer import ScheduledOptimizer

SCHEDULES = ("constant", "warmup_cosine", "warmup_stable_decay", "equal_cycles", "nested_restarts")
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
AVERAGES = tuple(_AVERAGES)
_OF_MODELS = "layer_lr_decay"
"""An option of a model's parameter groups, beside the settings of the optimizer."""
COMPANION_LR = "companion_lr"
"""The learning rate of the parameters that a matrix optimizer leaves to its companion."""


class Recipe(Protocol):
    """An optimizer by name, its schedule, perhaps an average of weights; a race's contestant is one."""

    @property
    def optimizer(self) -> str: ...

    @property
    def schedule(self) -> str: ...

    @property
    def averaging(self) -> str | None: ...


# ------------------------------------------------------------------ makers


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes one optimizer for any model."""

    title: str
    """Its name in messages."""
    defaults: Mapping[str, Any]
    options: frozenset[str]
    """Further settings that it takes."""
    make: Callable[[nn.Module, Mapping[str, Any]], torch.optim.Optimizer]
    required: frozenset[str] = frozenset()
    """Settings without a default."""
    takes_anything: bool = False
    """Whether its class collects settings that its signature does not name."""
    averages: bool = False
    """Whether evaluation has other weights than training, so that its rate needs no decay."""

    @property
    def settings(self) -> frozenset[str]:
        return self.options | self.required | set(self.defaults)


def maker_of(optimizer: str) -> Maker:
    """By registry name, or from a user's file; raises ValueError or WorkloadError in one line."""
    return _own(optimizer) if is_file(optimizer) else _registered(optimizer)


def _registered(name: str) -> Maker:
    described = find(name)
    options = frozenset({*GROUP_OPTIONS, *OPTIMIZER_OPTIONS, _OF_MODELS, "converge"})
    return Maker(
        title=name,
        defaults=described.defaults,
        options=options | ({COMPANION_LR} if described.companion is not None else set()),
        make=functools.partial(_created, name),
        averages=described.has_modes,
    )


@functools.cache
def _own(optimizer: str) -> Maker:
    """Once per process, as workloads are: the file may do more than define a class."""
    made = class_of(*parts(optimizer))
    parameters, takes_anything = parameters_of(made)
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    options: frozenset[str] = frozenset()
    make: Callable[[nn.Module, Mapping[str, Any]], torch.optim.Optimizer] = functools.partial(_ungrouped, made)
    if issubclass(made, RuleOptimizer):
        options = frozenset({*GROUP_OPTIONS, *OPTIMIZER_OPTIONS, _OF_MODELS})
        make = functools.partial(_grouped, made)
    return Maker(
        title=made.__name__,
        defaults={name: value for name, value in defaults.items() if name not in options},
        options=options,
        make=make,
        required=frozenset(parameters) - frozenset(defaults),
        takes_anything=takes_anything,
        averages=callable(getattr(made, "train", None)) and callable(getattr(made, "eval", None)),
    )


def _created(name: str, model: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    options = dict(settings)
    rate = options.pop(COMPANION_LR, None)
    return create(name, model, companion=None if rate is None else {"lr": rate}, **options)


def _grouped(made: type[RuleOptimizer], model: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    return for_model(made, model, **settings)


def _ungrouped(
    made: type[torch.optim.Optimizer], model: nn.Module, settings: Mapping[str, Any]
) -> torch.optim.Optimizer:
    return made(model.parameters(), **settings)


# ------------------------------------------------------------------ settings


def unknown_settings(maker: Maker, names: Iterable[str]) -> list[str]:
    """Names that neither the optimizer nor a schedule nor an average knows."""
    if maker.takes_anything:
        return []
    betas = _BETAS[: len(_default_betas(maker))]
    single = {*betas, *(f"one_minus_{name}" for name in betas)}
    return sorted(set(names) - {*maker.settings, *SCHEDULE_SETTINGS, *AVERAGE_SETTINGS, *single})


def idle_settings(recipe: Recipe, maker: Maker, names: Iterable[str]) -> dict[str, str]:
    """Settings of schedules and averages that cannot act here, and why."""
    taken = {*maker.settings, *taken_by_schedule(recipe.schedule), *taken_by_average(recipe.averaging)}
    if "warmup_steps" in maker.settings:
        taken.add("warmup_factor")
    found = {}
    for name in sorted(set(names) - taken):
        if name in SCHEDULE_SETTINGS:
            others = [other for other in SCHEDULES if name in taken_by_schedule(other)]
            found[name] = f"with schedule = {recipe.schedule!r}; it is for {', '.join(others)}"
        elif name in AVERAGE_SETTINGS:
            others = [other for other in _AVERAGES if name in taken_by_average(other)]
            now = f"with averaging = {recipe.averaging!r}" if recipe.averaging else "without averaging"
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


# ------------------------------------------------------------------ optimizers


def build(
    recipe: Recipe,
    point: Mapping[str, Any],
    model: nn.Module,
    total_steps: int,
    make: Callable[[nn.Module, Mapping[str, Any]], torch.optim.Optimizer] | None = None,
) -> ScheduledOptimizer:
    """The optimizer of a recipe at one point of its settings; schedules and averages count on ``total_steps``.

    ``make`` makes the optimizer from the same settings in another way, for instance with another package.
    """
    maker = maker_of(recipe.optimizer)
    options, schedule, average = sorted_settings(point, maker)
    given = schedule.pop("warmup_factor", None)
    warmup = 0.0 if given is None else float(given)
    if given is not None and "warmup_steps" in maker.settings:
        options["warmup_steps"] = int(warmup * total_steps)
    converge = options.pop("converge", None)
    if converge is not None and "lr" not in options:
        share = warmup or options.get("warmup_steps", 0) / total_steps
        options["lr"] = amos_lr(model.parameters(), total_steps, share, float(converge))
    optimizer = (make or maker.make)(model, options)
    rate = _rate(recipe.schedule, schedule, warmup, total_steps)
    if rate is not None:
        _keep_peaks(optimizer, recipe.schedule)
    if recipe.averaging is not None:
        optimizer = _averaged(recipe.averaging, optimizer, average, total_steps)
    return ScheduledOptimizer(optimizer, rate, has_modes=hasattr(optimizer, "eval") and hasattr(optimizer, "train"))


def _keep_peaks(optimizer: torch.optim.Optimizer, schedule: str) -> None:
    for group in optimizer.param_groups:
        if "lr" not in group:
            name = type(optimizer).__name__
            raise ValueError(f'{name} has no lr that {schedule} could set; take schedule = "constant"')
        group["initial_lr"] = group["lr"]


def sorted_settings(point: Mapping[str, Any], maker: Maker) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
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
