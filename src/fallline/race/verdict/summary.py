"""The summary of a results file: times to target on every clock, quality at an equal budget, costs, one verdict."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.measure.store import StoreError
from fallline.race.clock.pace import SECONDS, STEPS, Errors
from fallline.race.engine.messages import CRASHED, FAILED, OUT_OF_MEMORY
from fallline.race.plan import BUDGET, EXTERNAL, Rules
from fallline.race.results import Calibrated, Results, Row
from fallline.race.results.phase import phase
from fallline.race.verdict import notes
from fallline.race.verdict.curves import Curve, learning_curves
from fallline.race.verdict.early_stop import late_studies, saved_seconds, without_late
from fallline.race.verdict.going_on import GoingOn, further
from fallline.race.verdict.looks import STUDIES_ARE_UP, first_look
from fallline.race.verdict.memory_budget import most_bytes, too_large
from fallline.race.verdict.misses import Miss, closest, misses, often_missed, standing
from fallline.race.verdict.quality import Quality, qualities
from fallline.race.verdict.race_look import METRIC, RaceLook, looks_of
from fallline.race.verdict.raced import WALL, Raced, main_clock
from fallline.race.verdict.searched import OtherRate, other_rates
from fallline.race.verdict.sentences import answer
from fallline.race.verdict.settings import Setting, compared_by, settings_of
from fallline.score.decision import FIRST_LOOK
from fallline.score.leaderboard import Leaderboard, leaderboard, without_infinity
from fallline.score.times import StudyTimes

CLOCKS = {SECONDS: "steps × calibrated seconds per step", STEPS: "steps", WALL: "wall clock of the trials"}
CROSS_CHECK = 7
"""Studies from which on the exact test is shown beside the choice: with fewer it can separate nobody of five."""


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
    other_rates: Mapping[str, tuple[OtherRate, ...]] = dataclasses.field(default_factory=dict)
    """Contestant → what the rates next to its own cost in the search."""
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
    def begun(self) -> bool:
        """Whether any study has ended; before that tables hold nothing."""
        return any(self.times[STEPS].cells.values())

    @property
    def tested(self) -> bool:
        """Whether the exact test is shown: where it is all there is, or where there are enough studies for it."""
        return self.look is None or self.board.studies >= CROSS_CHECK

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
            return self._answer(self.ended_by)
        if not self.broken and not self.unfinished and self.look is not None and len(self.contestants) > 1:
            return self._answer(self.look.look.decided or STUDIES_ARE_UP)
        return [self._without_a_look()]

    def _answer(self, ended_by: str) -> list[str]:
        """A choice that often misses says so at once: whoever takes it should expect no better."""
        lines = answer(self.looks, ended_by, self.contestants, self.unfit)
        if not self.looks:
            return lines if self.phase is None else [f"{lines[0]} It ended while {self.phase}."]
        if self.choice is None:
            return [" ".join([*lines, *closest(self.misses)])]
        if self.looks[-1].quantity == METRIC:
            return lines
        missed = often_missed(self.choice, self.misses, self.times[STEPS])
        return lines if missed is None else [lines[0], missed, *lines[1:]]

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
                "other_rates": {
                    name: [dataclasses.asdict(other) for other in others] for name, others in self.other_rates.items()
                },
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
    problems = [facts["problem"] for facts in results.workloads().values() if facts["problem"]]
    raced = Raced.read(results)
    rules, rows, calibration = raced.rules, raced.rows, raced.calibration
    if not raced.workloads:
        raise StoreError(f"{results.path}: nothing was raced: {'; '.join(text.splitlines()[0] for text in problems)}")
    training, evaluation = results.spent()
    looks = tuple(looks_of(results)) or first_look(results, rows)
    counted = _in_rounds(rows, looks) if rules.in_rounds else rows
    whole = raced.times(counted)
    main = main_clock(whole)
    late = late_studies(whole[main], rules.tau_max) if rules.ends_early else set()
    times = {name: without_late(table, late) for name, table in whole.items()}
    reference = results.reference(results.contestants())
    limits = raced.limits()
    missed = misses(counted, raced.curves, raced.workloads)
    ends = standing(missed, raced.contestants)
    boards = {  # by the wall clock nobody knows how long the rest of a budget would have taken
        name: leaderboard(table, tau_max=rules.tau_max, reference=reference, allowed=limits.get(name), standing=ends)
        for name, table in times.items()
    }
    budget = rules.ruleset == BUDGET
    statuses: dict[str, Counter[str]] = {name: Counter() for name in raced.contestants}
    for row in rows:
        statuses[row.contestant][row.status or "to run"] += 1
    # Failures of trials first: a race in which nothing else happened quotes one.
    told = [*notes.failures(rows), *problems, *(miss.sentence for miss in missed if miss.sentence)]
    told += [*notes.uneven_tuning(rows), *notes.ended_too_early(rows, rules, raced.clock, times[main])]
    told += notes.slow_when_measured(rows, calibration, raced.clock, rules)
    searched = notes.search_line(results, rules)
    told += [searched] if searched else []
    if looks and not results.looks():
        told.append("raced before looks were stored: judged by the rule of today, as one look at all studies")
    seconds = raced.clock.seconds if SECONDS in times else None
    return Summary(
        rules=rules,
        workloads=raced.workloads,
        contestants=raced.contestants,
        reference=reference,
        boards=boards,
        times=times,
        calibration=calibration,
        pace_errors=raced.ratio_errors,
        misses=missed,
        curves=learning_curves(counted, raced.curves, raced.crossed, raced.workloads, seconds),
        statuses=statuses,
        quality=qualities(results, counted, raced.workloads, raced.contestants) if budget else (),
        training_hours=training / 3600,
        evaluation_hours=evaluation / 3600,
        saved_hours=saved_seconds(rows, calibration) / 3600,
        notes=tuple(told),
        unfinished=sum(row.status is None for row in rows),
        phase=phase(results),
        looks=looks,
        ended_by=results.ended_by,
        settings=settings_of(
            results.contestants(), counted, compared_by(raced), tuned=rules.tuned, timed=rules.ruleset == EXTERNAL
        ),
        other_rates=other_rates(results, raced),
        further=further(results, rules, looks),
        unfit=too_large(rules.memory_budget, most_bytes(calibration)),
    )


def _in_rounds(rows: Sequence[Row], looks: Sequence[RaceLook]) -> list[Row]:
    """Without studies that began ahead of their round: how many there are depends on what ran beside them."""
    if not looks:
        return list(rows)
    studies = {standing.contestant: standing.studies for standing in looks[-1].look.standings}
    return [row for row in rows if row.study < studies.get(row.contestant, math.inf)]
