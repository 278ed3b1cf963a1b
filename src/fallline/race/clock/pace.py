"""How well a race knows its contestants' paces beside each other, and so whether it may decide in seconds.

A difference in seconds is one of steps times one of step times.  The error of the second does not shrink with the
number of studies, so that a bound in seconds stays as wide as it however long a race goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from fallline.measure.stats import NORMAL_95
from fallline.race.clock.calibrated import Calibrated
from fallline.race.clock.sessions import PLACEMENT_ERROR, Session, own_errors, ratio_errors

SECONDS, STEPS = "seconds", "steps"
LARGEST_ERROR = 0.015
"""The relative standard error of a ratio of step times above which a race decides in steps."""

Errors = Mapping[tuple[str, str], float]
"""Two contestants → the relative standard error of the ratio of their step times on one workload; either order is the
same pair, and only one of them is there."""


def errors_of_ratios(
    contestants: Sequence[str], sessions: Sequence[Session], calibration: Mapping[str, Calibrated]
) -> dict[tuple[str, str], float]:
    """All pairs of those whose steps were measured.

    From paired rounds where they are stored; otherwise from the interval of either time, as if they were measured in
    different hours.
    """
    paired = ratio_errors(sessions)
    known = [name for name in contestants if name in calibration]
    found = {}
    for at, first in enumerate(known):
        for second in known[at + 1 :]:
            apart = math.hypot(*(_error_alone(calibration[name]) for name in (first, second)))
            found[first, second] = paired.get(frozenset((first, second)), apart)
    return found


def pace_errors(errors: Errors, choice: str) -> dict[str, float]:
    """Contestant → the relative standard error of its step time over the choice's; 0 for the choice itself.

    >>> pace_errors({("adamw", "lion"): 0.01, ("lion", "sgd"): 0.02}, "lion")
    {'lion': 0.0, 'adamw': 0.01, 'sgd': 0.02}
    """
    found = {choice: 0.0}
    for (first, second), error in errors.items():
        if choice in (first, second):
            found[second if first == choice else first] = error
    return found


def own_pace_errors(
    contestants: Iterable[str], errors: Errors, calibration: Mapping[str, Calibrated]
) -> dict[str, float]:
    """Contestant → an error of its own, such that those of two add up to the error of their ratio."""
    known = [name for name in contestants if name in calibration]
    if len(known) == 1:
        return {known[0]: _error_alone(calibration[known[0]])}
    return own_errors(known, errors)


def errors_by_workload(
    contestants: Sequence[str],
    sessions: Mapping[str, Sequence[Session]],
    calibration: Mapping[tuple[str, str], Calibrated],
) -> dict[str, Errors]:
    """Workload → pair of contestants → the relative standard error of the ratio of their step times."""
    return {
        workload: errors_of_ratios(
            contestants, found, {c: cost for (w, c), cost in calibration.items() if w == workload}
        )
        for workload, found in sessions.items()
    }


def errors_of_cells(
    ratios: Mapping[str, Errors], calibration: Mapping[tuple[str, str], Calibrated]
) -> dict[tuple[str, str], float]:
    """(contestant, workload) → a relative standard error of its step time; two of them add up to that of the ratio."""
    found: dict[tuple[str, str], float] = {}
    for workload, errors in ratios.items():
        costs = {c: cost for (w, c), cost in calibration.items() if w == workload}
        found |= {(name, workload): error for name, error in own_pace_errors(costs, errors, costs).items()}
    return found


def decides_in(errors: Mapping[str, float], contestants: Iterable[str]) -> str:
    """``"seconds"`` where the paces of these contestants are known well enough beside the choice's, else ``"steps"``.

    >>> decides_in({"lion": 0.0, "adamw": 0.01, "sgd": 0.02}, ["lion", "adamw"])
    'seconds'
    >>> decides_in({"lion": 0.0, "adamw": 0.01, "sgd": 0.02}, ["lion", "adamw", "sgd"])
    'steps'
    """
    largest = max((errors.get(name, math.inf) for name in contestants), default=0.0)
    return SECONDS if largest <= LARGEST_ERROR else STEPS


def _error_alone(cost: Calibrated) -> float:
    return math.hypot(math.log(cost.high / cost.low) / (2 * NORMAL_95), PLACEMENT_ERROR)
