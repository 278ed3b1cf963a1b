"""The summary of a results file: times to target on every clock, quality at an equal budget, costs, one verdict."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fallline.measure.store import StoreError
from fallline.race.clock import pace
from fallline.race.clock.pace import Errors, errors_of_ratios, own_pace_errors
from fallline.race.clock.sessions import Session
from fallline.race.clock.step_clock import StepClock
from fallline.race.engine.messages import CENSORED, CRASHED, FAILED, OUT_OF_MEMORY
from fallline.race.plan import BUDGET, EXTERNAL, STEPS_CLOCK, Rules
from fallline.race.results import Calibrated, Results, Row
from fallline.race.results.phase import phase
from fallline.race.verdict.crossing import Reached, reached
from fallline.race.verdict.curves import Curve, learning_curves
from fallline.race.verdict.early_stop import (
    PAST_TAU_MAX,
    fastest_medians,
    late_shares,
    late_studies,
    latest,
    without_late,
)
from fallline.race.verdict.going_on import GoingOn, going_on
from fallline.race.verdict.looks import STUDIES_ARE_UP, TIME_IS_UP, Material, take
from fallline.race.verdict.memory_budget import too_large
from fallline.race.verdict.misses import Curves, Miss, misses, standing
from fallline.race.verdict.quality import Quality, qualities
from fallline.race.verdict.race_look import RaceLook
from fallline.race.verdict.sentences import answer
from fallline.race.verdict.settings import Setting, settings_of
from fallline.score.decision import FIRST_LOOK, WITHIN
from fallline.score.leaderboard import Leaderboard, leaderboard, without_infinity
from fallline.score.times import StudyTimes
from fallline.workloads.loading import HELD_OUT
from fallline.workloads.workload import LOWER

SECONDS, STEPS, WALL = pace.SECONDS, pace.STEPS, "wall"
CLOCKS = {SECONDS: "steps × calibrated seconds per step", STEPS: "steps", WALL: "wall clock of the trials"}
CROSS_CHECK = 7
"""Studies from which on the exact test is shown beside the choice: with fewer it can separate nobody of five."""
MUCH_SLOWER = 0.2
"""A step that took this much longer when it was measured than in the trials was measured on a busy machine."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """A race, finished or not."""

    rules: Rules
    workloads: Mapping[str, Mapping[str, Any]]
    contestants: tuple[str, ...]
    reference: str
    """The contestant that the others are compared with."""
    boards: Mapping[str, Leaderboard]
    """By clock."""
    times: Mapping[str, StudyTimes]
    calibration: Mapping[tuple[str, str], Calibrated]
    pace_errors: Mapping[str, Errors]
    """Workload → the errors of the ratios of step times."""
    misses: tuple[Miss, ...]
    curves: tuple[Curve, ...]
    statuses: Mapping[str, Counter[str]]
    """Contestant → how its trials ended; "to run" for the rest."""
    quality: tuple[Quality, ...]
    training_hours: float
    evaluation_hours: float
    saved_hours: float
    """By ending trials early, at most: they might have reached the target before their budget was used."""
    notes: tuple[str, ...]
    unfinished: int
    phase: str | None
    """The work before the trials, in a few words; None once they run, or have ended."""
    looks: tuple[RaceLook, ...] = ()
    """From the first one.  Of a fixed design there is one, once all its trials have ended."""
    ended_by: str | None = None
    """Why a race in rounds has ended; None while it runs, and in a fixed design."""
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    """Those that each contestant raced with, or that won."""
    further: GoingOn | None = None
    """How the race could go on, and what that would buy."""
    unfit: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Contestants that do not fit the memory that was asked for, and why."""

    @property
    def look(self) -> RaceLook | None:
        """The look that the choice is taken from; None if there is none yet, or if it saw too few studies."""
        if not self.looks or self.looks[-1].look.studies < FIRST_LOOK:
            return None
        return self.looks[-1] if self.ended_by is not None or not self.rules.in_rounds else None

    @property
    def choice(self) -> str | None:
        return None if self.look is None else self.look.look.choice

    @property
    def board(self) -> Leaderboard:
        return self.boards[SECONDS if SECONDS in self.boards else STEPS]

    @property
    def warning(self) -> str | None:
        """Where clocks rank otherwise, the step time of the implementation decides, or the machine was busy."""
        main = self.board
        differing = [clock for clock, board in self.boards.items() if _contradicts(board, main)]
        if not differing:
            return None
        counted = {row.contestant for board in self.boards.values() for row in board.rows if row.score > 0.0}
        parts = [
            f"by {CLOCKS[clock]}: {', '.join(r.contestant for r in self.boards[clock].rows if r.contestant in counted)}"
            for clock in differing
        ]
        return f"Warning: the order depends on the clock; {'; '.join(parts)}."

    @property
    def broken(self) -> bool:
        """Whether no trial at all trained to an end of its own."""
        ends = {status for counts in self.statuses.values() for status in counts}
        return bool(ends) and ends <= {CRASHED, FAILED, OUT_OF_MEMORY}

    @property
    def verdict(self) -> str:
        """The answer: which one to take, what that may cost, and who is slower."""
        return " ".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """The verdict in parts that stand on lines of their own."""
        if not self.broken and self.ended_by is not None:
            return answer(self.looks, self.ended_by, self.contestants, self.unfit)
        if not self.broken and not self.unfinished and self.look is not None and len(self.contestants) > 1:
            ended = self.look.look.decided or STUDIES_ARE_UP
            return answer(self.looks, ended, self.contestants, self.unfit)
        return [self._without_a_look()]

    def _without_a_look(self) -> str:
        if self.broken:
            return f"No trial could be trained to its end; {self.notes[0]}."
        if self.unfinished or self.rules.in_rounds:  # between two rounds nothing is to run, and yet it has not ended
            left = "1 trial is" if self.unfinished == 1 else f"{self.unfinished} trials are"
            now = f"{self.phase}; " if self.phase else ""
            return f"The race has not ended: {now}{left} to run; the same command goes on."
        never = [row.contestant for row in self.board.rows if row.reached == 0]
        sentence = self.board.verdict
        if never and len(never) < len(self.board.rows):
            sentence += f" Without a target reached in time in most studies: {', '.join(never)}."
        return sentence

    @property
    def cross_check(self) -> str | None:
        """The exact test of the leaderboard, which knows nothing of the noise of others, from enough studies on."""
        if self.look is None or self.board.studies < CROSS_CHECK or not self.board.pairs:
            return None
        return f"Cross-check by an exact test of time to target: {self.board.verdict}"

    def _top_two(self) -> dict[str, Any] | None:
        """The comparison of the first two, and how many studies each would separate them."""
        if len(self.board.rows) < 2:
            return None
        first, second = (row.contestant for row in self.board.rows[:2])
        pair = self.board.pair(first, second)
        if pair.first != first:
            pair = dataclasses.replace(pair, first=first, second=second, difference=-pair.difference)
        return {**dataclasses.asdict(pair), "separated": pair.separated, "studies": self.board.studies}

    def as_data(self) -> dict[str, Any]:
        return without_infinity(
            {
                "rules": dataclasses.asdict(self.rules),
                "workloads": {name: dict(facts) for name, facts in self.workloads.items()},
                "clocks": {clock: board.as_data() for clock, board in self.boards.items()},
                "calibration": [
                    {"workload": w, "contestant": c, **dataclasses.asdict(cost)}
                    for (w, c), cost in self.calibration.items()
                ],
                "pace_errors": [
                    {"workload": workload, "contestants": list(pair), "error": error}
                    for workload, errors in self.pace_errors.items()
                    for pair, error in errors.items()
                ],
                "misses": [dataclasses.asdict(miss) for miss in self.misses],
                "curves": [dataclasses.asdict(curve) for curve in self.curves],
                "statuses": {name: dict(counts) for name, counts in self.statuses.items()},
                "quality_at_budget": [{**dataclasses.asdict(q), "verdict": q.verdict} for q in self.quality],
                "training_hours": self.training_hours,
                "evaluation_hours": self.evaluation_hours,
                "saved_hours": self.saved_hours,
                "notes": list(self.notes),
                "unfinished": self.unfinished,
                "phase": self.phase,
                "warning": self.warning,
                "verdict": self.verdict,
                "choice": self.choice,
                "cross_check": self.cross_check,
                "settings": [dataclasses.asdict(setting) for setting in self.settings.values()],
                "going_on": None if self.further is None else dataclasses.asdict(self.further),
                "does_not_fit": dict(self.unfit),
                "top_two": self._top_two(),
                "looks": [look.as_data() for look in self.looks],
                "ended_by": self.ended_by,
            }
        )


def _contradicts(board: Leaderboard, main: Leaderboard) -> bool:
    """Whether somebody is strictly above somebody else here, and strictly below there; ties are no contradiction."""
    here = {row.contestant: row.score for row in board.rows}
    return any(
        above.score > below.score and here[above.contestant] < here[below.contestant]
        for above, below in itertools.combinations(main.rows, 2)
    )


def summarize(results: Results) -> Summary:
    """Everything there is to say, computed from the stored rows alone."""
    rules, calibration = results.rules(), results.calibration()
    problems = [facts["problem"] for facts in results.workloads().values() if facts["problem"]]
    workloads = {name: facts for name, facts in results.workloads().items() if not facts["problem"]}
    if not workloads:
        raise StoreError(f"{results.path}: nothing was raced: {'; '.join(text.splitlines()[0] for text in problems)}")
    contestants = tuple(contestant.name for contestant in results.contestants())
    training, evaluation = results.spent()
    rows = [row for row in results.rows() if row.workload in workloads]
    clock = StepClock(rules, calibration, {name: about["facts"]["eval_every"] for name, about in workloads.items()})
    looks = tuple(RaceLook.from_data(data) for data in results.looks()) or _first_look(results, rows)
    counted = _in_rounds(rows, looks) if rules.in_rounds else rows
    curves = results.curves()
    crossed = _crossed(rows, curves, workloads)
    ratios = _ratio_errors(results, workloads, contestants, calibration)
    whole = _whole_times(rules, counted, workloads, contestants, calibration, clock, crossed, ratios)
    main = SECONDS if SECONDS in whole else STEPS
    late = late_studies(whole[main], rules.tau_max) if rules.ends_early else set()
    times = {name: without_late(table, late) for name, table in whole.items()}
    reference = results.reference(results.contestants())
    allowed = _allowed(rows, rules, workloads, contestants)
    limits: dict[str, Mapping[tuple[str, str], float]] = {
        SECONDS: {(c, w): clock.seconds(w, c, steps) for (c, w), steps in allowed.items()},
        STEPS: allowed,
    }
    missed = misses(counted, curves, workloads)
    ends = standing(missed, contestants)
    boards = {  # by the wall clock nobody knows how long the rest of a budget would have taken
        name: leaderboard(table, tau_max=rules.tau_max, reference=reference, allowed=limits.get(name), standing=ends)
        for name, table in times.items()
    }
    quality = qualities(results, counted, workloads, contestants) if rules.ruleset == BUDGET else ()
    statuses: dict[str, Counter[str]] = {name: Counter() for name in contestants}
    for row in rows:
        statuses[row.contestant][row.status or "to run"] += 1
    # Failures of trials first: a race in which nothing else happened quotes one.
    notes = [*_notes(rows), *problems, *(miss.sentence for miss in missed if miss.sentence)]
    notes += [*_uneven_tuning(rows), *_ended_too_early(rows, rules, clock, times[main])]
    notes += _slow_when_measured(rows, calibration, clock, rules)
    if looks and not results.looks():
        notes.append("raced before looks were stored: judged by the rule of today, as one look at all studies")
    return Summary(
        rules=rules,
        workloads=workloads,
        contestants=contestants,
        reference=reference,
        boards=boards,
        times=times,
        calibration=calibration,
        pace_errors=ratios,
        misses=missed,
        curves=learning_curves(counted, curves, crossed, workloads, clock.seconds if SECONDS in times else None),
        statuses=statuses,
        quality=quality,
        training_hours=training / 3600,
        evaluation_hours=evaluation / 3600,
        saved_hours=_saved(rows, calibration) / 3600,
        notes=tuple(notes),
        unfinished=sum(row.status is None for row in rows),
        phase=phase(results),
        looks=looks,
        ended_by=results.ended_by,
        settings=settings_of(
            results.contestants(),
            counted,
            _measure(rules, crossed, curves, workloads),
            tuned=rules.tuned,
            timed=rules.ruleset == EXTERNAL,
        ),
        further=_further(results, rules, looks),
        unfit=too_large(rules.memory_budget, calibration),
    )


def _measure(
    rules: Rules, crossed: Mapping[int, Reached], curves: Curves, workloads: Mapping[str, Mapping[str, Any]]
) -> Callable[[Row], float]:
    """By what the trials of a study are compared, less is better: steps to target, or the metric at the end."""
    if rules.ruleset != BUDGET:
        return lambda row: crossed[row.id].steps

    def final(row: Row) -> float:
        sign = 1.0 if workloads[row.workload]["facts"]["direction"] == LOWER else -1.0
        last = curves.get(row.id, ())[-1:]
        value = last[0][1] if last and last[0][0] == row.max_steps else None
        return math.inf if value is None else sign * value

    return final


def _further(results: Results, rules: Rules, looks: Sequence[RaceLook]) -> GoingOn | None:
    """What more studies would buy: the bound that was asked for, or half of it where that is reached."""
    if not looks or looks[-1].look.choice is None or looks[-1].look.studies < FIRST_LOOK:
        return None
    last = looks[-1]
    goal = last.look
    reason = results.ended_by if rules.in_rounds else goal.decided or STUDIES_ARE_UP
    if reason == WITHIN:
        half = dataclasses.replace(material_of(results), rules=dataclasses.replace(rules, within=rules.within / 2))
        studies = {standing.contestant: standing.studies for standing in goal.standings}
        goal = take(half, studies, looks[:-1]).look
    elif reason not in (TIME_IS_UP, STUDIES_ARE_UP):
        return None
    return going_on(
        looks,
        goal,
        results.seconds_used,
        results.last_command(),
        fixed=not rules.in_rounds,
        limited=rules.minutes is not None,
    )


def _whole_times(
    rules: Rules,
    rows: Sequence[Row],
    workloads: Mapping[str, Mapping[str, Any]],
    contestants: Sequence[str],
    calibration: Mapping[tuple[str, str], Calibrated],
    clock: StepClock,
    crossed: Mapping[int, Reached],
    ratios: Mapping[str, Errors],
) -> dict[str, StudyTimes]:
    """By clock, with times that are late as they are."""
    forms: dict[str, Callable[[Row], float | None]] = {
        SECONDS: lambda row: clock.seconds(row.workload, row.contestant, crossed[row.id].steps),
        STEPS: lambda row: crossed[row.id].steps,
        WALL: lambda row: crossed[row.id].seconds,
    }
    if rules.clock == STEPS_CLOCK or not calibration:
        del forms[SECONDS]
    times = {name: study_times(rows, time_of, workloads, contestants) for name, time_of in forms.items()}
    if SECONDS in times:
        times[SECONDS] = dataclasses.replace(times[SECONDS], pace_errors=errors_of_cells(ratios, calibration))
    return times


def _ratio_errors(
    results: Results,
    workloads: Iterable[str],
    contestants: Sequence[str],
    calibration: Mapping[tuple[str, str], Calibrated],
) -> dict[str, Errors]:
    sessions = {name: results.sessions(name) for name in workloads}
    return errors_by_workload(contestants, sessions, calibration)


def material_of(results: Results) -> Material:
    """All that a look at the race is taken from."""
    rules, calibration = results.rules(), results.calibration()
    workloads = {name: facts for name, facts in results.workloads().items() if not facts["problem"]}
    contestants = tuple(contestant.name for contestant in results.contestants())
    rows = [row for row in results.rows() if row.workload in workloads]
    every = {name: about["facts"]["eval_every"] for name, about in workloads.items()}
    clock = StepClock(rules, calibration, every)
    ratios = _ratio_errors(results, workloads, contestants, calibration)
    crossed = _crossed(rows, results.curves(), workloads)
    times = _whole_times(rules, rows, workloads, contestants, calibration, clock, crossed, ratios)
    allowed = _allowed(rows, rules, workloads, contestants)
    limits = {STEPS: allowed, SECONDS: {(c, w): clock.seconds(w, c, steps) for (c, w), steps in allowed.items()}}
    if rules.ends_late_trials:
        # A late trial may have been ended, or gone on: it counts as missed, at the time from which it was late.
        main = SECONDS if SECONDS in times else STEPS
        shares = late_shares(times[main], limits[main], rules.tau_max)
        limits = {name: {key: time * shares[key] for key, time in of.items()} for name, of in limits.items()}
        late = late_studies(times[main], rules.tau_max)
        times = {name: without_late(table, late) for name, table in times.items()}
    ends: dict[tuple[str, str, int], set[str | None]] = defaultdict(set)
    for row in rows:
        ends[row.contestant, row.workload, row.study].add(row.status)
    return Material(
        rules=rules,
        times=times,
        allowed=limits,
        eval_every=every,
        crashed={key for key, found in ends.items() if found <= {CRASHED, FAILED, OUT_OF_MEMORY}},
        ratio_errors=ratios,
        quality=qualities(results, rows, workloads, contestants) if rules.ruleset == BUDGET else (),
    )


def _in_rounds(rows: Sequence[Row], looks: Sequence[RaceLook]) -> list[Row]:
    """Without studies that began ahead of their round: how many there are depends on what ran beside them."""
    if not looks:
        return list(rows)
    studies = {standing.contestant: standing.studies for standing in looks[-1].look.standings}
    return [row for row in rows if row.study < studies.get(row.contestant, math.inf)]


def _first_look(results: Results, rows: Sequence[Row]) -> tuple[RaceLook, ...]:
    """Of a race that ended before looks were stored: judged by the rule of today."""
    if results.rules().in_rounds or not rows or any(row.status is None for row in rows):
        return ()
    material = material_of(results)
    return (take(material, dict.fromkeys(material.contestants, material.rules.studies), ()),)


def study_times(
    rows: Sequence[Row],
    time_of: Callable[[Row], float | None],
    workloads: Mapping[str, Mapping[str, Any]],
    contestants: Sequence[str],
) -> StudyTimes:
    """The fastest trial of every study that has ended; ``time_of`` gives a trial's time to target, None for a miss."""
    cells: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    unfinished = {(r.contestant, r.workload, r.study) for r in rows if r.status is None}
    for row in rows:
        if (row.contestant, row.workload, row.study) in unfinished:
            continue
        cell = cells[row.contestant, row.workload]
        time = time_of(row)
        cell[row.study] = min(math.inf if time is None else time, cell.get(row.study, math.inf))
    variants = {name: HELD_OUT[name] for name in workloads if HELD_OUT.get(name) in workloads}
    scored = tuple(name for name in workloads if name not in variants)
    return StudyTimes(tuple(contestants), scored, variants, cells, with_common_draws(rows))


def _crossed(rows: Sequence[Row], curves: Curves, workloads: Mapping[str, Mapping[str, Any]]) -> dict[int, Reached]:
    """Trial → when it crossed its target; ∞ for a miss."""
    found = {}
    for row in rows:
        about = workloads[row.workload]
        if row.steps_to_target is None:
            found[row.id] = Reached(math.inf, math.inf)
        else:
            direction, curve = about["facts"]["direction"], curves.get(row.id, ())
            found[row.id] = reached(row.steps_to_target, curve, about["target"], direction, about["untrained"])
    return found


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


def with_common_draws(rows: Iterable[Row]) -> frozenset[str]:
    """The contestants that share their seeds; a second name for one of them has seeds that nobody else has."""
    sharing: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows:
        sharing[row.workload, row.seed].add(row.contestant)
    return frozenset(name for names in sharing.values() if len(names) > 1 for name in names)


def _allowed(
    rows: Sequence[Row], rules: Rules, workloads: Mapping[str, Mapping[str, Any]], contestants: Sequence[str]
) -> dict[tuple[str, str], float]:
    """(contestant, workload) → the most steps of its trials: what a miss counts as where speeds are compared."""
    most = {workload: float(rules.most_steps(about["facts"]["max_steps"])) for workload, about in workloads.items()}
    found = {(name, workload): steps for workload, steps in most.items() for name in contestants}
    for row in rows:
        if row.max_steps is not None and rules.ruleset == BUDGET:
            found[row.contestant, row.workload] = float(row.max_steps)
    return found


def _uneven_tuning(rows: Sequence[Row]) -> list[str]:
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


def _saved(rows: Sequence[Row], calibration: Mapping[tuple[str, str], Calibrated]) -> float:
    """Training that early ends avoided at most, at each trial's own pace where steps were not calibrated."""
    seconds = 0.0
    for row in rows:
        if row.status == CENSORED and row.steps and row.max_steps:
            cost = calibration.get((row.workload, row.contestant))
            pace = cost.step_seconds if cost else (row.training_seconds or 0.0) / row.steps
            seconds += (row.max_steps - row.steps) * pace
    return seconds


def _ended_too_early(rows: Sequence[Row], rules: Rules, clock: StepClock, times: StudyTimes) -> list[str]:
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


def _slow_when_measured(
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


def _notes(rows: Sequence[Row]) -> list[str]:
    """Failures, one line per kind and contestant."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        if row.status not in (None, CENSORED) and row.note:
            found[row.contestant, row.status, row.note.splitlines()[0]] += 1
    return [
        f"{contestant}: {count} {'trial' if count == 1 else 'trials'} {status}: {note}"
        for (contestant, status, note), count in found.items()
    ]
