"""A contestant: an optimizer, a schedule, perhaps an average of weights, and settings or a space to tune them in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fallline.race.contestants import halton


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
        """The setting that it runs with where nothing is tuned, and with which its steps are measured.

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
