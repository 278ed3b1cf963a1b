"""Who races: an optimizer, a schedule, perhaps an average of weights, and settings or a space to tune them in."""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fallline.race import halton
from fallline.race.presets import PRESETS, Preset
from fallline.race.spaces import NOT_RACED, TUNING

if TYPE_CHECKING:
    from fallline.race.makers import Maker

SCHEDULES = ("constant", "warmup_cosine", "warmup_stable_decay", "equal_cycles", "nested_restarts")
AVERAGES = ("lawa_queue", "lawa_ema", "weight_ema")
FIELDS = ("optimizer", "settings", "space", "points", "schedule", "averaging")
_KINDS = {
    "optimizer": (str, 'a name such as "adamw", or "FILE.py:Class"'),
    "settings": (dict, "a table such as { lr = 1e-3 }"),
    "space": (dict, 'a table such as { lr = { min = 1e-4, max = 1e-2, scaling = "log" } }'),
    "points": (list, "a list of tables such as [{ lr = 1e-3 }]"),
    "schedule": (str, 'a name such as "warmup_cosine"'),
    "averaging": (str, 'a name such as "weight_ema"'),
}
"""What a field of a TOML table is, for messages too."""


CHECKED_STEPS = 1000
"""A length of training at which schedules are looked at before the race."""


class BadContestant(ValueError):
    """A contestant that cannot race; one line: who, why, and what would do.  A user's own traceback may follow."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    optimizer: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fixed, and the one setting where there is neither tuning nor a list of points."""
    space: Mapping[str, halton.Dimension] = dataclasses.field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ()
    """A list to draw trials from, in place of a space."""
    schedule: str = "warmup_cosine"
    averaging: str | None = None
    own_draws: bool = False
    """Seeds and trial points of its own, though others have common ones: a second name for the same contestant."""

    def definition(self) -> dict[str, Any]:
        """As plain data, for the results file; equal data is the same contestant."""
        return {
            "optimizer": self.optimizer,
            "settings": plain(self.settings),
            "space": plain(self.space),
            "points": plain(self.points),
            "schedule": self.schedule,
            "averaging": self.averaging,
        }

    def one_setting(self) -> dict[str, Any]:
        """What it runs with where nothing is tuned, and where its steps are measured.

        Its settings; with a list of points, the first of those whose flags and names are the most frequent ones: a
        point that switches to another algorithm does not stand for the others.
        """
        if not self.points:
            return dict(self.settings)
        structures = [_structure(point) for point in self.points]
        typical = max(structures, key=structures.count)
        return {**self.settings, **self.points[structures.index(typical)]}

    def trial_points(self, *, trials: int, study: int, seed: int, tuned: bool) -> list[dict[str, Any]]:
        """The settings of one study's trials; one trial with the one setting where nothing is tuned."""
        if not tuned or not (self.space or self.points):
            return [self.one_setting()]
        if self.points:
            # Without replacement: a study of five trials of a list of five takes each.
            order = np.random.default_rng([seed, 3, study]).permutation(len(self.points))
            return [{**self.settings, **self.points[i]} for i in order[:trials].tolist()]
        drawn = halton.study_points(self.space, trials=trials, study=study, seed=seed)
        return [{**self.settings, **point} for point in drawn]


def _structure(point: Mapping[str, Any]) -> dict[str, Any]:
    """Flags and names: what is neither a number nor a list of numbers, such as betas."""
    return {
        name: value
        for name, value in point.items()
        if isinstance(value, bool) or not isinstance(value, int | float | list | tuple)
    }


def plain(data: Any) -> Any:
    """Lists for tuples, as JSON gives them back."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return data


def named(name: str, own: Mapping[str, Contestant] | None = None) -> Contestant:
    """A contestant by its name in a user's file, or that of an optimizer or of an AlgoPerf entry, or ``FILE.py:Class``.

    ``label=name`` gives it another label; with common draws that would only run the same trials twice, so it gets its
    own.
    """
    label, separator, wanted = name.partition("=")
    if separator and not Path(name.rpartition(":")[0]).is_file():  # whose path may have the sign in it
        if not label.strip() or not label.isprintable():
            raise BadContestant(f"{name!r}: before the sign = stands a label, for instance twin={wanted}")
        return dataclasses.replace(named(wanted, own), name=label, own_draws=True)
    if own and name in own:
        return own[name]
    from fallline.race.makers import is_file

    if is_file(name):
        return from_file(name, Path())
    if name in PRESETS:
        return from_preset(name, PRESETS[name])
    if name in NOT_RACED:
        raise BadContestant(f"{name} cannot race: {NOT_RACED[name]}")
    if name not in TUNING:
        close = difflib.get_close_matches(name, [*(own or ()), *TUNING, *PRESETS], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`fallline contestants` shows all"
        raise BadContestant(f"there is no contestant {name!r}; {hint}")
    tuning = TUNING[name]
    return Contestant(name, name, tuning.settings, tuning.space, schedule=tuning.schedule)


def from_preset(name: str, preset: Preset) -> Contestant:
    if preset.optimizer is None:
        raise BadContestant(f"{name} ({preset.title}) cannot race: {preset.missing}")
    return Contestant(name, preset.optimizer, preset.settings, {}, preset.points, preset.schedule, preset.averaging)


def from_file(optimizer: str, folder: Path) -> Contestant:
    """An optimizer class of one's own, ``FILE.py:Class`` seen from ``folder``, at its defaults.

    Without a schedule where its groups have no rate, or where it averages its weights instead.
    """
    from fallline.race.makers import absolute, contestant_name, maker_of
    from fallline.workloads import WorkloadError

    try:
        spec = absolute(optimizer, folder)
        maker = maker_of(spec)
    except WorkloadError as error:
        raise BadContestant(str(error)) from None
    scheduled = "lr" in maker.settings and not maker.averages
    return Contestant(contestant_name(spec), spec, schedule="warmup_cosine" if scheduled else "constant")


def from_toml(path: Path) -> list[Contestant]:
    """Every table of a TOML file is a contestant::

    [my_adamw]
    optimizer = "adamw"
    schedule = "warmup_cosine"
    settings = { weight_decay = 0.1, warmup_factor = 0.05 }
    space.lr = { min = 1e-4, max = 1e-2, scaling = "log" }

    An optimizer's file is looked for from the folder of the TOML file.
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
        space=table.get("space", {}),
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
    from fallline.race.makers import is_file

    if is_file(optimizer):
        try:
            return from_file(optimizer, folder)
        except BadContestant as error:
            raise BadContestant(f"{where}: {error}") from None
    return named(optimizer) if optimizer in TUNING else Contestant(optimizer, optimizer)


def _inherited(base: Contestant, contestant: Contestant) -> dict[str, Any]:
    """The documented setting, without what the table's schedule does not take."""
    from fallline.race.building import idle_settings
    from fallline.race.makers import maker_of

    if not base.settings or contestant.schedule not in SCHEDULES or contestant.averaging not in (None, *AVERAGES):
        return dict(base.settings)
    idle = idle_settings(contestant, maker_of(base.optimizer), base.settings)
    return {name: value for name, value in base.settings.items() if name not in idle}


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
    from fallline.race.makers import is_file, maker_of
    from fallline.workloads import WorkloadError

    try:
        maker = maker_of(contestant.optimizer)
    except (ValueError, WorkloadError) as error:
        raise BadContestant(f"{place}: {error}") from None
    _check_names(contestant, maker, place)
    _check_values(contestant, maker, place)
    if not is_file(contestant.optimizer):  # somebody's class may need a model of its own kind
        _check_that_it_can_be_made(contestant, place)


def _check_names(contestant: Contestant, maker: Maker, place: str) -> None:
    from fallline.race.building import SINGLE_BETAS, idle_settings, unknown_settings

    # What comes together in a trial.
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
    from fallline.race.building import NUMBERS

    for name, value in (*_values(contestant), *contestant.space.items()):
        if not _storable(value):
            raise BadContestant(f"{place}: {name} must be of numbers or text, got {value!r}")
    for name, value in _values(contestant):
        number = isinstance(maker.defaults.get(name), int | float) or (name in NUMBERS and name not in maker.settings)
        if (number and isinstance(value, str)) or (isinstance(value, float) and math.isnan(value)):
            raise BadContestant(f"{place}: {name} must be a number, got {value!r}")


def _check_that_it_can_be_made(contestant: Contestant, place: str) -> None:
    """At every point of its list, or at both ends of its space, for a model of two weights."""
    import torch

    from fallline.race.building import build

    for point in _extremes(contestant):
        warmup = point.get("warmup_factor", 0.0)
        if not 0.0 <= warmup <= 1.0:
            raise BadContestant(f"{place}: warmup_factor must be a share of the training, 0 to 1, got {warmup:g}")
        try:
            build(contestant, point, torch.nn.Linear(1, 1), CHECKED_STEPS).set_rates(0)
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
