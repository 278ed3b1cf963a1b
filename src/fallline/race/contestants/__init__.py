"""Contestants: their names, their search spaces and points, and the checks before they race.

Only :mod:`checks` and :mod:`toml_file` need torch: they make every contestant's optimizer once.
"""

from fallline.race.contestants.contestant import BadContestant, Contestant
from fallline.race.contestants.naming import named
from fallline.race.contestants.presets import from_preset

__all__ = ["BadContestant", "Contestant", "from_preset", "named"]
