"""Whether a contestant can race at all: refuses what would only fail in its first trial."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fallline.race.contestants import halton
from fallline.race.contestants.contestant import BadContestant, Contestant
from fallline.race.contestants.spaces import NOT_RACED
from fallline.training.optimizer_factory import (
    AVERAGES,
    NUMBERS,
    SCHEDULES,
    SINGLE_BETAS,
    Maker,
    build,
    idle_settings,
    maker_of,
    unknown_settings,
)
from fallline.training.optimizer_files import is_file
from fallline.workloads.errors import WorkloadError

CHECKED_STEPS = 1000
"""A length of training at which schedules are looked at before the race."""


def check(contestant: Contestant, where: str | None = None) -> None:
    """Refuses what would only fail in the first trial."""
    place = where or contestant.name
    try:
        halton.check(contestant.space, place)
    except halton.BadSpace as error:
        raise BadContestant(str(error)) from None
    if contestant.space and contestant.points:
        raise BadContestant(f"{place}: give a space or points, not both")
    if contestant.schedule not in SCHEDULES:
        raise BadContestant(f"{place}: schedule must be one of {', '.join(SCHEDULES)}, got {contestant.schedule!r}")
    if contestant.averaging is not None and contestant.averaging not in AVERAGES:
        raise BadContestant(f"{place}: averaging must be one of {', '.join(AVERAGES)}, got {contestant.averaging!r}")
    if contestant.optimizer in NOT_RACED:
        raise BadContestant(f"{place}: {contestant.optimizer} cannot race: {NOT_RACED[contestant.optimizer]}")

    try:
        maker = maker_of(contestant.optimizer)
    except (ValueError, WorkloadError) as error:
        raise BadContestant(f"{place}: {error}") from None
    _check_names(contestant, maker, place)
    _check_values(contestant, maker, place)
    if not is_file(contestant.optimizer):  # somebody's class may need a model of its own kind
        _check_that_it_can_be_made(contestant, place)


def _check_names(contestant: Contestant, maker: Maker, place: str) -> None:
    # The names that meet in a trial.
    together = [{*contestant.settings, *contestant.space, *point} for point in contestant.points or ({},)]
    names = set().union(*together)
    for name in unknown_settings(maker, names):
        close = difflib.get_close_matches(name, maker.settings, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(maker.defaults) or 'none'}"
        raise BadContestant(f"{place}: {maker.title} has no setting {name!r}; {hint}")
    for name, why in idle_settings(contestant, maker, names).items():
        raise BadContestant(f"{place}: {name} does nothing {why}")
    if any({"warmup_steps", "warmup_factor"} <= given for given in together):
        raise BadContestant(f"{place}: warmup_steps and warmup_factor are both given; leave one of them away")
    if any("betas" in given and (SINGLE_BETAS - maker.settings) & given for given in together):
        raise BadContestant(f"{place}: betas and a single one of them are both given; leave one of them away")
    # Steps are measured with one setting, without the space.
    fixed = set(contestant.settings).union(set.intersection(*map(set, contestant.points or ({},))))
    if missing := ", ".join(sorted(maker.required - fixed)):
        raise BadContestant(
            f"{place}: {maker.title} has no default of {missing}; give it one, or {missing} in settings"
        )


def _check_values(contestant: Contestant, maker: Maker, place: str) -> None:
    for name, value in (*_values(contestant), *contestant.space.items()):
        if not _storable(value):
            raise BadContestant(f"{place}: {name} must be of numbers or text, got {value!r}")
    for name, value in _values(contestant):
        number = isinstance(maker.defaults.get(name), int | float) or (name in NUMBERS and name not in maker.settings)
        if (number and isinstance(value, str)) or (isinstance(value, float) and math.isnan(value)):
            raise BadContestant(f"{place}: {name} must be a number, got {value!r}")


def _check_that_it_can_be_made(contestant: Contestant, place: str) -> None:
    """At every point of its list, or at both ends of its space, for a model of one small matrix."""
    for point in _extremes(contestant):
        warmup = point.get("warmup_factor", 0.0)
        if not 0.0 <= warmup <= 1.0:
            raise BadContestant(f"{place}: warmup_factor must be a share of the training, 0 to 1, got {warmup:g}")
        try:
            build(contestant, point, torch.nn.Linear(2, 2), CHECKED_STEPS).set_rates(0)
        except (ValueError, TypeError) as error:
            raise BadContestant(f"{place}: {error}") from None


def _extremes(contestant: Contestant) -> list[dict[str, Any]]:
    if contestant.points:
        return [{**contestant.settings, **point} for point in contestant.points]
    ends = [
        {
            name: dimension.get("feasible_points", (dimension.get("min"), dimension.get("max")))[end]
            for name, dimension in contestant.space.items()
        }
        for end in (0, -1)
    ]
    return [dict(contestant.settings), *({**contestant.settings, **end} for end in ends if end)]


def _storable(value: Any) -> bool:
    """Whether a results file can hold it; TOML has dates, JSON has none."""
    if isinstance(value, Mapping):
        return all(map(_storable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_storable, value))
    return value is None or isinstance(value, int | float | str)


def _values(contestant: Contestant) -> Iterator[tuple[str, Any]]:
    """Everything that a setting may become."""
    for settings in (contestant.settings, *contestant.points):
        yield from settings.items()
    for name, dimension in contestant.space.items():
        yield from ((name, value) for value in dimension.get("feasible_points", ()))
