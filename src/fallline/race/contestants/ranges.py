"""Ranges of settings as they are written on a command line: ``lr=1e-4:1e-1``, ``lion.lr=1e-3,3e-3``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from fallline.race.contestants import halton
from fallline.race.contestants.contestant import Contestant

RATE = "lr"
AROUND = 6.3
"""A rate that no documented range is known of is searched from its default over this to its default times this: as wide
as the documented ranges."""
EXAMPLE = "write lr=1e-4:1e-1, lion.lr=1e-4:1e-2, momentum=0.8:0.95:linear, or a list such as lr=1e-3,3e-3"


class BadRange(ValueError):
    """A range that cannot be read or belongs to nobody; one line, which begins with the text."""


@dataclasses.dataclass(frozen=True)
class Range:
    """One setting of all contestants, or of one of them."""

    text: str
    contestant: str | None
    setting: str
    dimension: halton.Dimension


def read_range(text: str) -> Range:
    """
    >>> read_range("lion.lr=1e-4:1e-2").contestant, dict(read_range("lr=1e-3,3e-3").dimension)
    ('lion', {'feasible_points': [0.001, 0.003]})
    """
    head, sign, values = text.partition("=")
    contestant, dot, setting = head.strip().rpartition(".")
    if not sign or not setting or not values.strip() or (dot and not contestant):
        raise BadRange(f"{text!r}: is no range; {EXAMPLE}")
    dimension: dict[str, Any]
    if ":" in values:
        low, high, *scaling = (part.strip() for part in values.split(":"))
        if len(scaling) > 1:
            raise BadRange(f"{text!r}: a range has a lower and an upper end, and perhaps log or linear; {EXAMPLE}")
        dimension = {"min": _number(low, text), "max": _number(high, text)}
        dimension |= {"scaling": scaling[0]} if scaling else {}
        if dimension["min"] == dimension["max"]:
            raise BadRange(f"{text!r}: both ends are {low}, so there is nothing to search; for one value write {low}")
    else:
        points = [_number(part.strip(), text) for part in values.split(",")]
        if len(set(points)) < len(points):
            raise BadRange(f"{text!r}: a value is listed twice; leave one out")
        dimension = {"feasible_points": points}
    try:
        halton.check({setting: dimension}, repr(text))
    except halton.BadSpace as error:
        raise BadRange(str(error)) from None
    return Range(text, contestant or None, setting, halton.with_scaling(dimension))


def with_range(contestants: Sequence[Contestant], wanted: Range) -> list[Contestant]:
    """The contestants with this range in place of their own.

    A range that names nobody is for those that search this setting, and those that have it and search nothing: Prodigy
    finds its rate itself, so a range of rates is not meant for it.
    """
    names = [c.name for c in contestants]
    if wanted.contestant is not None and wanted.contestant not in names:
        raise BadRange(f"{wanted.text!r}: {wanted.contestant} is not in the race; there are {', '.join(names)}")
    meant = [c for c in contestants if _is_meant(c, wanted)]
    if not meant:
        raise BadRange(
            f"{wanted.text!r}: no contestant searches {wanted.setting!r}; name one, as in {names[0]}.{wanted.text}"
        )
    listed = [c.name for c in meant if c.points]
    if listed:
        raise BadRange(f"{wanted.text!r}: {listed[0]} tries a list of settings of its own, which has no ranges")
    return [
        dataclasses.replace(c, space={**c.space, wanted.setting: wanted.dimension}) if c in meant else c
        for c in contestants
    ]


def narrowed(contestant: Contestant, ranges: Sequence[Range]) -> Contestant:
    """With its learning rate, and the settings of the user's ranges, as all that is searched.

    Of a method that finds its rate itself, the first setting of its space; a user's own class gets a range of rates
    around its default.
    """
    if contestant.points:
        return contestant
    if contestant.space:
        asked = {wanted.setting for wanted in ranges if _is_meant(contestant, wanted)}
        rate = RATE if RATE in contestant.space else next(iter(contestant.space))
        kept = asked if rate != RATE and asked else {rate, *asked}
        return dataclasses.replace(contestant, space={name: d for name, d in contestant.space.items() if name in kept})
    rate_now = None if contestant.settings else _default_rate(contestant)
    if rate_now is None:
        return contestant
    low, high = (float(f"{value:.2g}") for value in (rate_now / AROUND, rate_now * AROUND))
    return dataclasses.replace(contestant, space={RATE: {"min": low, "max": high, "scaling": "log"}})


def _is_meant(contestant: Contestant, wanted: Range) -> bool:
    if wanted.contestant is not None:
        return contestant.name == wanted.contestant
    if contestant.space or contestant.points:
        return wanted.setting in contestant.space
    from fallline.training.optimizer_factory import maker_of

    return wanted.setting in maker_of(contestant.optimizer).settings


def _default_rate(contestant: Contestant) -> float | None:
    from fallline.training.optimizer_factory import maker_of

    rate = maker_of(contestant.optimizer).defaults.get(RATE)
    return float(rate) if isinstance(rate, int | float) and 0.0 < rate < math.inf else None


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRange(f"{where!r}: {text!r} is no number; {EXAMPLE}")
    return value
