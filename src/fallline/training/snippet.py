"""A recipe at one point of its settings as code to paste: the same optimizer, schedule and average as a trial had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fallline.averaging import LawaEma, LawaQueue, WeightEma
from fallline.schedules import EqualCycles, NestedRestarts, WarmupCosine, WarmupStableDecay
from fallline.training.optimizer_factory import COMPANION_LR, Recipe, maker_of, sorted_settings, taken_by_schedule
from fallline.training.optimizer_files import is_file

_SCHEDULES = {
    "warmup_cosine": WarmupCosine,
    "warmup_stable_decay": WarmupStableDecay,
    "equal_cycles": EqualCycles,
    "nested_restarts": NestedRestarts,
}
_AVERAGES = {"lawa_queue": LawaQueue, "lawa_ema": LawaEma, "weight_ema": WeightEma}


def code_of(recipe: Recipe, point: Mapping[str, Any], steps: int) -> str | None:
    """Lines that make the optimizer for ``model``; None for a class from a user's file, which is not run for this."""
    if is_file(recipe.optimizer):
        return None
    maker = maker_of(recipe.optimizer)
    options, schedule, average = sorted_settings(point, maker)
    imports = ["import fallline"]
    warmup = schedule.pop("warmup_factor", None)
    given = {name: _value(value, name) for name, value in options.items() if name != "converge"}
    if COMPANION_LR in given:
        given["companion"] = f'{{"lr": {given.pop(COMPANION_LR)}}}'
    if warmup is not None and "warmup_steps" in maker.settings:
        given["warmup_steps"] = f"int({_number(warmup)} * steps)"
    if "converge" in options and "lr" not in options:
        given["lr"] = (
            f"fallline.amos_lr(model.parameters(), steps, {_number(warmup or 0.0)}, {_number(options['converge'])})"
        )
    lines = [f"optimizer = fallline.create({', '.join([_quoted(recipe.optimizer), 'model', *_arguments(given)])})"]
    if recipe.averaging is not None:
        form = _AVERAGES[recipe.averaging].__name__
        imports.append(f"from fallline.averaging import {form}")
        settings = _arguments({name: _value(value, name) for name, value in average.items()})
        made = f"{form}(" if recipe.averaging == "weight_ema" else f"{form}.for_steps("
        lengths = [] if recipe.averaging == "weight_ema" else ["steps"]
        lines.append(f"optimizer = {made}{', '.join(['optimizer', *lengths, *settings])})")
    if recipe.schedule != "constant":
        schedule_form = _SCHEDULES[recipe.schedule].__name__
        imports.append(f"from fallline.schedules import {schedule_form}")
        settings = _arguments(_schedule_settings(recipe.schedule, schedule, warmup))
        lines.append(f"schedule = {schedule_form}({', '.join(['optimizer', 'total_steps=steps', *settings])})")
        lines.append("# schedule.step() follows every optimizer.step()")
    if maker.averages or recipe.averaging is not None:
        lines.append("# optimizer.eval() before an evaluation, optimizer.train() after it")
    needs_steps = any("steps" in line for line in lines if not line.startswith("#"))
    head = [f"steps = {steps}  # of your training"] if needs_steps else []
    return "\n".join([*imports, "", *head, *lines])


def _schedule_settings(name: str, settings: Mapping[str, Any], warmup: float | None) -> dict[str, str]:
    """Lengths are shares of the training, as in a race, so that they follow its length."""
    taken = taken_by_schedule(name)
    found = {key: _value(value, key) for key, value in settings.items() if key in taken and key != "decay_fraction"}
    if name == "nested_restarts":
        found["warmup_factor"] = _number(warmup or 0.0)
    else:
        found["warmup_steps"] = f"int({_number(warmup)} * steps)" if warmup else "0"
    if name == "warmup_stable_decay":
        found["decay_steps"] = f"int({_number(settings.get('decay_fraction', 0.2))} * steps)"
    return found


def settings_text(recipe: Recipe, point: Mapping[str, Any]) -> str:
    """A point, its schedule and its average in one line."""
    shown = dict(point)
    if not is_file(recipe.optimizer):
        options, schedule, average = sorted_settings(point, maker_of(recipe.optimizer))
        shown = {**options, **schedule, **{f"average_{name}": value for name, value in average.items()}}
    parts = [f"{name} {_value(value, name)}" for name, value in shown.items()]
    return ", ".join([*parts, recipe.schedule, *([recipe.averaging] if recipe.averaging else [])])


def _arguments(given: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items()]


def _value(value: Any, name: str) -> str:
    if isinstance(value, list | tuple):
        inner = [_value(item, name) for item in value]
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if isinstance(value, float):
        # One minus a beta is what counts, and has few of its digits.
        return _number(value, 9 if name.startswith("beta") else 6)
    return _quoted(value)


def _quoted(value: Any) -> str:
    """As ruff and black write it, with double quotes."""
    plain = isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}
    return f'"{value}"' if plain else repr(value)


def _number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}"
