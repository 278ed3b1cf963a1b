"""Contestants of a user's own, from a TOML file."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from fallline.race.contestants import halton
from fallline.race.contestants.checks import check
from fallline.race.contestants.contestant import BadContestant, Contestant
from fallline.race.contestants.naming import from_file, named
from fallline.race.contestants.spaces import TUNING
from fallline.training.optimizer_factory import AVERAGES, SCHEDULES, idle_settings, maker_of
from fallline.training.optimizer_files import is_file

FIELDS = ("optimizer", "settings", "space", "points", "schedule", "averaging")
_KINDS = {
    "optimizer": (str, 'a name such as "adamw", or "FILE.py:Class"'),
    "settings": (dict, "a table such as { lr = 1e-3 }"),
    "space": (dict, "a table such as { lr = { min = 1e-4, max = 1e-2 } }"),
    "points": (list, "a list of tables such as [{ lr = 1e-3 }]"),
    "schedule": (str, 'a name such as "warmup_cosine"'),
    "averaging": (str, 'a name such as "weight_ema"'),
}
"""The type of each field of a table, and an example for messages."""


def from_toml(path: Path) -> list[Contestant]:
    """Every table of a TOML file is a contestant::

    [my_adamw]
    optimizer = "adamw"
    schedule = "warmup_cosine"
    settings = { weight_decay = 0.1, warmup_factor = 0.05 }
    space.lr = { min = 1e-4, max = 1e-2 }

    A range is searched on a log scale if it begins above 0 and spans a factor of ten, else on a linear one, unless it
    says ``scaling = "log"`` or ``"linear"``.  An optimizer's file is looked for from the folder of the TOML file.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover
        try:
            import tomli as tomllib
        except ImportError:
            raise BadContestant(f"{path}: reading TOML needs Python 3.11, or `pip install tomli`") from None
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadContestant(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadContestant(f"{path}: not a TOML file: {error}") from None
    if not tables:
        raise BadContestant(f'{path}: no contestants; each is a table such as [mine] with optimizer = "adamw"')
    for name in tables:
        # As -o takes names, and as lines of a table hold them.
        if not name.strip() or not name.isprintable() or set(",=") & set(name):
            raise BadContestant(f"{path}: a contestant's name is one printable line without , and =, got {name!r}")
    return [_from_table(name, table, f"{path}: [{name}]", path.parent) for name, table in tables.items()]


def _from_table(name: str, table: Any, where: str, folder: Path) -> Contestant:
    if not isinstance(table, dict) or "optimizer" not in table:
        raise BadContestant(f'{where}: optimizer is missing, for instance optimizer = "adamw"')
    unknown = [key for key in table if key not in FIELDS]
    if unknown:
        raise BadContestant(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(FIELDS)}")
    for key, (kind, example) in _KINDS.items():
        if key in table and not isinstance(table[key], kind):
            raise BadContestant(f"{where}: {key} must be {example}, got {table[key]!r}")
    points = table.get("points", [{}])
    if not points or not all(isinstance(point, dict) for point in points):
        raise BadContestant(f"{where}: points must be {_KINDS['points'][1]}, got {points!r}")
    base = _base(table["optimizer"], where, folder)
    contestant = Contestant(
        name=name,
        optimizer=base.optimizer,
        settings=table.get("settings", {}),
        space={name: halton.with_scaling(dimension) for name, dimension in table.get("space", {}).items()},
        points=tuple(table.get("points", ())),
        schedule=table.get("schedule", base.schedule),
        averaging=table.get("averaging"),
    )
    if "settings" not in table and "space" not in table:
        contestant = dataclasses.replace(contestant, settings=_inherited(base, contestant))
    check(contestant, where)
    return contestant


def _base(optimizer: str, where: str, folder: Path) -> Contestant:
    """The contestant that a table's optimizer is without the table."""
    if is_file(optimizer):
        try:
            return from_file(optimizer, folder)
        except BadContestant as error:
            raise BadContestant(f"{where}: {error}") from None
    return named(optimizer) if optimizer in TUNING else Contestant(optimizer, optimizer)


def _inherited(base: Contestant, contestant: Contestant) -> dict[str, Any]:
    """The documented setting, without what the table's schedule does not take."""
    if not base.settings or contestant.schedule not in SCHEDULES or contestant.averaging not in (None, *AVERAGES):
        return dict(base.settings)
    idle = idle_settings(contestant, maker_of(base.optimizer), base.settings)
    return {name: value for name, value in base.settings.items() if name not in idle}
