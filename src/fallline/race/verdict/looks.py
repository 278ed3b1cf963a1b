"""Takes looks at a race: turns its studies into the evidence of the rule, and says when the race is over.

A look sees complete rounds only, so that neither what ran side by side nor an interruption changes what it finds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fallline.race.clock.pace import LARGEST_ERROR, SECONDS, STEPS
from fallline.race.plan import BUDGET, MOST_STUDIES, Rules
from fallline.race.results import Results, Row
from fallline.race.verdict.material import Material, material_of
from fallline.race.verdict.race_look import METRIC, SCORE, TIME, RaceLook
from fallline.score.decision import LEADER, NOBODY, ONE_LEFT, WITHIN, Evidence, Look, Times, take_look
from fallline.score.decision.rule import margin
from fallline.score.decision.several import scores_of
from fallline.score.times import StudyTimes

TIME_IS_UP, STUDIES_ARE_UP = "time", "studies"
"""Why a race ends that is not decided."""


def take(
    material: Material, studies: Mapping[str, int], before: Sequence[RaceLook], seconds_used: float = 0.0
) -> RaceLook:
    """A look at so many studies of each contestant, after those that were taken before."""
    rules = material.rules
    number = len(before) + 1
    out = before[-1].look.out if before else {}
    racing = [name for name in studies if name not in out]
    clocks = [clock for clock in (SECONDS, STEPS) if clock in material.times]
    error = clock_error(material, racing) if SECONDS in clocks else None
    main = STEPS if error is None or error > LARGEST_ERROR else SECONDS

    def look(clock: str, choice: str | None = None) -> Look:
        evidence = evidence_of(material, clock, studies)
        return take_look(evidence, number=number, out=out, within=rules.within, until=rules.until, choice=choice)

    found = look(main)
    quantity = quantity_of(material)
    other_clock = next((clock for clock in clocks if clock != main), None) if quantity != METRIC else None
    other = look(other_clock, found.choice) if other_clock and found.choice else None
    return RaceLook(quantity, main, found, other_clock if other else None, other, error, seconds_used)


def over(before: Sequence[RaceLook], rules: Rules, names: Collection[str], seconds_used: float) -> str | None:
    """Why a race ends after these looks; None if it goes on.  ``names`` are all contestants, also newcomers."""
    if rules.time_is_up(seconds_used, len(before)):
        return TIME_IS_UP
    if not before:
        return None
    look = before[-1].look
    known = {standing.contestant: standing.studies for standing in look.standings}
    racing = [name for name in names if name not in look.out]
    if len({known.get(name, 0) for name in racing}) > 1:
        return None  # somebody joined, and has to catch up
    if look.choice is None:
        return NOBODY
    if len(racing) == 1:
        return ONE_LEFT
    if rules.until != LEADER and look.bound is not None and look.bound <= margin(rules.within, look.relative):
        return WITHIN
    return STUDIES_ARE_UP if rules.minutes is None and look.studies >= MOST_STUDIES else None


def first_look(results: Results, rows: Sequence[Row]) -> tuple[RaceLook, ...]:
    """The look at a race that ended before looks were stored, judged by the rule of today."""
    if results.rules().in_rounds or not rows or any(row.status is None for row in rows):
        return ()
    material = material_of(results)
    return (take(material, dict.fromkeys(material.contestants, material.rules.studies), ()),)


# ------------------------------------------------------------------ evidence


def quantity_of(material: Material) -> str:
    if len(material.times[STEPS].columns) > 1:
        return SCORE
    return METRIC if material.rules.ruleset == BUDGET else TIME


def evidence_of(material: Material, clock: str, studies: Mapping[str, int]) -> Evidence:
    """The evidence of so many studies of each contestant."""
    quantity = quantity_of(material)
    if quantity == SCORE:
        return scores_of(_first_studies(material.times[clock], studies), crashed=material.crashes(studies))
    if quantity == METRIC:
        return _metric(material, studies)
    return _times(material, clock, studies)


def _times(material: Material, clock: str, studies: Mapping[str, int]) -> Times:
    """Logarithms of times to target on one workload."""
    table = material.times[clock]
    (workload,) = table.columns
    values = {
        name: [_log(table.cell(name, workload).get(study, math.inf)) for study in range(count)]
        for name, count in studies.items()
    }
    budgets = {name: material.allowed[clock].get((name, workload), math.inf) for name in studies}
    # A contestant that cannot take a step has no budget in seconds: it gets the longest of the others.
    longest = max((time for time in budgets.values() if math.isfinite(time)), default=1.0)
    miss = {name: math.log(time if math.isfinite(time) else longest) for name, time in budgets.items()}
    return Times(
        values,
        miss=miss,
        crashed=material.crashes(studies),
        floor=_grid(material, workload, studies),
        ratio_errors=material.ratio_errors.get(workload, {}) if clock == SECONDS else {},
        paired=set(studies) <= table.common_draws,
    )


def _metric(material: Material, studies: Mapping[str, int]) -> Times:
    """The metric at the end of an equal budget: its logarithm, or itself over its usual size where it may be ≤ 0."""
    (quality,) = material.quality
    sign = 1.0 if quality.direction == "lower" else -1.0
    rows = {name: np.array(quality.values[name][:count]) for name, count in studies.items()}
    every = np.concatenate([row[np.isfinite(row)] for row in rows.values()] or [np.empty(0)])
    if len(every) and every.min() > 0.0:
        scaled = {name: sign * np.log(np.abs(row)) for name, row in rows.items()}
    else:
        size = float(np.abs(every).mean()) or 1.0 if len(every) else 1.0
        scaled = {name: sign * row / size for name, row in rows.items()}
    for name, row in rows.items():
        scaled[name] = np.where(np.isfinite(row), scaled[name], math.inf)
    worst = max((float(row[np.isfinite(row)].max(initial=-math.inf)) for row in scaled.values()), default=-math.inf)
    miss = dict.fromkeys(studies, worst if math.isfinite(worst) else 0.0)
    paired = set(studies) <= material.times[STEPS].common_draws
    return Times({n: row.tolist() for n, row in scaled.items()}, miss, material.crashes(studies), paired=paired)


def _first_studies(table: StudyTimes, studies: Mapping[str, int]) -> StudyTimes:
    cells = {
        (name, workload): {study: time for study, time in cell.items() if study < studies[name]}
        for (name, workload), cell in table.cells.items()
        if name in studies
    }
    return dataclasses.replace(table, contestants=tuple(studies), cells=cells)


def _log(time: float) -> float:
    return math.log(time) if 0.0 < time < math.inf else math.inf


def _grid(material: Material, workload: str, studies: Mapping[str, int]) -> float:
    """The standard deviation of where a target is crossed between two evaluations, over a typical time to it."""
    steps = [
        steps
        for name, count in studies.items()
        for study, steps in material.times[STEPS].cell(name, workload).items()
        if study < count and math.isfinite(steps)
    ]
    return material.eval_every[workload] / float(np.median(steps)) / math.sqrt(12) if steps else 0.0


def clock_error(material: Material, racing: Sequence[str]) -> float:
    """The largest relative standard error of a ratio of step times between those who race."""
    pairs = [
        error
        for errors in material.ratio_errors.values()
        for (first, second), error in errors.items()
        if first in racing and second in racing
    ]
    return max(pairs, default=0.0)
