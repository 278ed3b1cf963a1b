"""Finds a contestant by what the user names: an optimizer, an AlgoPerf entry, ``FILE.py:Class``, ``label=name``.

torch is imported when a class of the user's own is named; listing contestants does without.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path

from fallline.race.contestants.contestant import BadContestant, Contestant
from fallline.race.contestants.presets import PRESETS, from_preset
from fallline.race.contestants.spaces import NOT_RACED, TUNING


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
    from fallline.training.optimizer_files import is_file

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


def from_file(optimizer: str, folder: Path) -> Contestant:
    """An optimizer class of one's own, ``FILE.py:Class`` seen from ``folder``, at its defaults.

    Without a schedule where its groups have no rate, or where it averages its weights instead.
    """
    from fallline.training.optimizer_factory import maker_of
    from fallline.training.optimizer_files import absolute, name_of
    from fallline.workloads.errors import WorkloadError

    try:
        spec = absolute(optimizer, folder)
        maker = maker_of(spec)
    except WorkloadError as error:
        raise BadContestant(str(error)) from None
    scheduled = "lr" in maker.settings and not maker.averages
    return Contestant(name_of(spec), spec, schedule="warmup_cosine" if scheduled else "constant")
