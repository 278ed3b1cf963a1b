"""Notes that a reader of a race needs beside its answer: failures, uneven tuning, a busy clock, the search."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from fallline.document.numbers import counted, duration
from fallline.race.clock.step_clock import StepClock
from fallline.race.engine.messages import CENSORED
from fallline.race.plan import BUDGET, SEARCH, STEPS_CLOCK, Rules
from fallline.race.results import Calibrated, Results, Row
from fallline.race.verdict.early_stop import PAST_TAU_MAX, fastest_medians, latest
from fallline.score.times import StudyTimes

MUCH_SLOWER = 0.2
"""A step that took this much longer when it was measured than in the trials was measured on a busy machine."""


def failures(rows: Sequence[Row]) -> list[str]:
    """Failures, one line per kind and contestant."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        if row.status not in (None, CENSORED) and row.note:
            found[row.contestant, row.status, row.note.splitlines()[0]] += 1
    return [
        f"{contestant}: {count} {'trial' if count == 1 else 'trials'} {status}: {note}"
        for (contestant, status, note), count in found.items()
    ]


def uneven_tuning(rows: Sequence[Row]) -> list[str]:
    """A line for each contestant with fewer trials a study than others: it has a fixed setting, or a short list."""
    most: dict[str, int] = defaultdict(int)
    for row in rows:
        most[row.contestant] = max(most[row.contestant], row.number)
    largest = max(most.values(), default=0)
    return [
        f"{name}: {number} {'trial' if number == 1 else 'trials'} a study, others have {largest}: "
        f"{'it has no space to be tuned in' if number == 1 else 'its list has no more points'}"
        for name, number in most.items()
        if number < largest
    ]


def ended_too_early(rows: Sequence[Row], rules: Rules, clock: StepClock, times: StudyTimes) -> list[str]:
    """Trials that ended for being late and would not be late now.

    The clock was measured again since, or studies were added to an odd number, or a held-out variant.
    """
    fastest = fastest_medians(times)
    count = sum(
        row.status == CENSORED
        and PAST_TAU_MAX in (row.note or "")
        and clock.seconds(row.workload, row.contestant, row.steps or 0)
        <= latest(fastest.get(row.workload, math.inf), rules.studies, rules.tau_max)
        for row in rows
    )
    return [f"{count} ended early that might have counted with the clock or the studies there are now"] if count else []


def slow_when_measured(
    rows: Sequence[Row], calibration: Mapping[tuple[str, str], Calibrated], clock: StepClock, rules: Rules
) -> list[str]:
    """Workloads whose steps took clearly longer when they were measured than in the trials that followed.

    Trials share the machine and should be slower.  If they are faster, something else ran while steps were measured,
    and an interval from that hour alone says nothing of it.
    """
    if rules.clock == STEPS_CLOCK:
        return []
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row.steps and row.training_seconds and (row.workload, row.contestant) in calibration:
            expected = clock.seconds(row.workload, row.contestant, row.steps)
            ratios[row.workload, row.contestant].append(expected / row.training_seconds)
    excess: dict[str, dict[str, float]] = defaultdict(dict)
    for (workload, contestant), found in ratios.items():
        ratio, share = statistics.median(found), calibration[workload, contestant].share
        if ratio > 1 + max(MUCH_SLOWER, 2 * share):
            excess[workload][contestant] = ratio
    return [_slower(workload, found, calibration, rules) for workload, found in excess.items()]


def _slower(
    workload: str, found: Mapping[str, float], calibration: Mapping[tuple[str, str], Calibrated], rules: Rules
) -> str:
    name = max(found, key=lambda name: found[name])
    then = calibration[workload, name].step_seconds
    others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    remedy = "race anew" if rules.ruleset == BUDGET else "measure them again with --calibrate"
    return (
        f"steps of {name}{others} on {workload} took {1e3 * then:.3g} ms when they were measured and "
        f"{1e3 * then / found[name]:.3g} ms in the trials: the machine was busy then; {remedy}"
    )


def search_line(results: Results, rules: Rules) -> str | None:
    """The cost and the risk of the search; None if there was none."""
    rows = [row for row in results.rows(SEARCH) if row.status is not None]
    if not rows:
        return None
    spent = sum((row.training_seconds or 0.0) + (row.evaluation_seconds or 0.0) for row in rows)
    return (
        f"Settings were chosen from {rules.search} each on one seed, {counted(len(rows), 'trial')}, "
        f"{duration(spent / 3600)} of training; a finer search could change the order: --search {2 * rules.search}"
    )
