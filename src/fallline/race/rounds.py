"""The trials of a race in rounds, one after the other: those of the round, then ahead of it, then the next look.

A worker that would be idle begins the next study of the leader, then of the runner-up.  A look does not see such a
study before its round, so it changes no verdict.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallline.race.lineup import Lineup
from fallline.race.measuring import Measuring
from fallline.race.plan import Round, Trial, next_round, trials_of_study, with_settings
from fallline.race.results import Results, Row
from fallline.race.verdict.looks import TIME_IS_UP, over, take
from fallline.race.verdict.material import material_of
from fallline.race.verdict.race_look import RaceLook, looks_of

AHEAD = 2
"""So many of the best run ahead of their round: the leader and the runner-up."""


class Rounds:
    """Gives trials until the race is over, and takes looks at complete rounds."""

    def __init__(
        self,
        lineup: Lineup,
        looked: Callable[[RaceLook], None] = lambda look: None,
        planned: Callable[[int, int], None] = lambda done, total: None,
        clock: Measuring | None = None,
        found: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ):
        """``found`` has the settings that a search gave to a contestant on a workload."""
        self._entries, self._contestants = lineup.entries, lineup.contestants
        self._rules, self._results = lineup.rules, lineup.results
        self._looked, self._planned, self._clock, self._now = looked, planned, clock, now
        self._found = {} if found is None else found
        self._measures = False
        """Whether steps are measured again at the end of this round: nothing may then run ahead of it."""
        self._begun = now() - lineup.results.seconds_used
        self._looks = looks_of(lineup.results)
        self._round = Round({})
        self._open: dict[int, Row] = {}
        """Trials of this round that have not ended."""
        self._waiting: deque[Row] = deque()
        self._given: set[int] = set()
        """Trials that were given to a worker."""
        self._idle = False
        """Whether there is nothing left to begin ahead of this round."""
        self.ended_by: str | None = None

    @property
    def seconds_used(self) -> float:
        return self._now() - self._begun

    def begin(self) -> None:
        """Plans the round that is to run, or finds that the race is over."""
        self.ended_by = self._over()
        if self.ended_by is None:
            self._plan()

    def start(self) -> None:
        """Once everything before the trials is done: rounds that are complete already are looked at."""
        if self.ended_by is None:
            self._take_rows()
            self._advance()

    # ------------------------------------------------------------------ trials

    def next(self) -> Row | None:
        """The next trial to run; None if there is none now."""
        if self.expired():
            return None
        row = self._waiting.popleft() if self._waiting else self._ahead()
        if row is not None:
            self._given.add(row.id)
        return row

    def put_back(self, row: Row) -> None:
        """A trial whose worker was lost."""
        self._given.discard(row.id)
        self._idle = False
        if row.id in self._open:
            self._waiting.appendleft(row)

    def ended(self, row: Row) -> None:
        self._open.pop(row.id, None)
        self._advance()

    def expired(self) -> bool:
        """Whether the race is over; trials that still run are then left."""
        if self.ended_by is None and self._rules.time_is_up(self.seconds_used, len(self._looks)):
            self.ended_by = TIME_IS_UP
        return self.ended_by is not None

    def close(self) -> None:
        """Writes why the race ended; trials that began ahead and are not needed any more are forgotten."""
        if self.ended_by is None:
            return
        if self.ended_by != TIME_IS_UP:
            self._results.drop_trials([row.id for row in self._results.rows() if row.status is None])
        self._results.end_race(self.ended_by, self.seconds_used)

    # ------------------------------------------------------------------ rounds

    def _over(self) -> str | None:
        return over(self._looks, self._rules, list(self._contestants), self.seconds_used)

    def _run(self) -> dict[str, int]:
        """Studies of each contestant at the last look; none of those who joined since."""
        last = self._looks[-1].look.standings if self._looks else ()
        known = {standing.contestant: standing.studies for standing in last}
        return {name: known.get(name, 0) for name in self._contestants}

    def _racing(self) -> list[str]:
        return [name for name in self._contestants if name not in self._out()]

    def _out(self) -> dict[str, int]:
        return self._looks[-1].look.out if self._looks else {}

    def _plan(self) -> None:
        """Adds the trials of the next round; those that are there already stay as they are."""
        run = self._run()
        self._round = next_round(run, self._out())
        self._measures = self._clock is not None and self._clock.wants_more(self._racing())
        first, last = min(run.values(), default=0), self._round.longest
        self._results.add_trials(
            trial
            for study in range(first, last)
            for trial in self._of_study(
                study, [name for name, goal in self._round.studies.items() if run[name] <= study < goal]
            )
        )

    def _of_study(self, study: int, names: Sequence[str]) -> list[Trial]:
        made = []
        for entry in self._entries.values():
            who = [with_settings(self._contestants[name], self._found.get((entry.name, name))) for name in names]
            made += trials_of_study(entry, who, self._rules, study)
        return made

    def _take_rows(self) -> None:
        rows = [row for row in self._results.rows() if row.workload in self._entries]
        mine = [row for row in rows if row.study < self._round.studies.get(row.contestant, 0)]
        # Study by study, whoever began ahead.
        mine.sort(key=lambda row: (row.study, row.number))
        self._open = {row.id: row for row in mine if row.status is None}
        self._waiting = deque(row for row in self._open.values() if row.id not in self._given)
        self._idle = False
        self._planned(
            sum(row.status is not None for row in rows), sum(row.status is not None for row in rows) + len(self._open)
        )

    def _advance(self) -> None:
        """Looks at the round once it is complete, and plans the next one."""
        while not self._open and self.ended_by is None:
            if self._measures and self._clock is not None:
                self._clock.measure(self._racing())
            look = take(material_of(self._results), self._round.studies, self._looks, self.seconds_used)
            self._results.add_look(look.look.number, look.look.studies, look.as_data())
            self._looks.append(look)
            self._looked(look)
            self.ended_by = self._over()
            if self.ended_by is None:
                self._plan()
                self._take_rows()

    def _ahead(self) -> Row | None:
        """A trial of the study after this round, of the leader or the runner-up."""
        if not self._looks or self._idle or self._measures:
            return None
        best = [s.contestant for s in self._looks[-1].look.standings if s.racing and s.contestant in self._contestants]
        for name in best[:AHEAD]:
            study = self._round.studies[name]
            if self._round.longest > study:
                continue  # somebody catches up: whether there is a next round is open
            self._results.add_trials(self._of_study(study, [name]))
            for row in self._results.rows():
                own = (row.contestant, row.study) == (name, study) and row.workload in self._entries
                if own and row.status is None and row.id not in self._given:
                    return row
        self._idle = True
        return None


def store_final_look(results: Results) -> None:
    """A fixed design is looked at once, when all its trials have ended, and again if studies were added."""
    material, before = material_of(results), looks_of(results)
    studies = dict.fromkeys(material.contestants, material.rules.studies)
    seen = {s.contestant: s.studies for s in before[-1].look.standings} if before else None
    if seen != studies and all(row.status is not None for row in results.rows()):
        look = take(material, studies, before)
        results.add_look(look.look.number, look.look.studies, look.as_data())
