"""Finds a setting for each contestant before the race, and says what that cost and what it risks."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fallline.race.engine.messages import CENSORED, OVER_BUDGET
from fallline.race.lineup import Lineup
from fallline.race.plan import SEARCH, search_trials
from fallline.race.plan.search import one_beyond
from fallline.race.results import Results, Row
from fallline.race.verdict import crossing
from fallline.workloads.workload import LOWER


class Search:
    """The queue of these trials: as soon as all of a contestant have ended, one beyond its range if that is needed."""

    def __init__(self, lineup: Lineup, expired: Callable[[], bool] = lambda: False):
        self._entries, self._contestants = lineup.entries, lineup.contestants
        self._rules, self._results = lineup.rules, lineup.results
        self.expired = expired
        self._waiting: deque[Row] = deque()

    def begin(self) -> bool:
        """Stores the trials; those that are there already stay.  Whether any is to run."""
        for entry in self._entries.values():
            self._results.add_trials(search_trials(entry, list(self._contestants.values()), self._rules))
        for workload, contestant in itertools.product(self._entries, self._contestants):
            self._go_beyond(workload, contestant)
        return any(row.status is None for row in self._rows())

    def start(self) -> None:
        self._waiting = deque(row for row in self._rows() if row.status is None)

    def found(self) -> dict[tuple[str, str], dict[str, Any]]:
        """(workload, contestant) → the best setting, of those whose search is over and gave a value."""
        found = {}
        for key in itertools.product(self._entries, self._contestants):
            rows = [row for row in self._rows() if (row.workload, row.contestant) == key]
            best = best_of(self._results, rows) if all(row.status is not None for row in rows) else None
            if best is not None:
                found[key] = best.point
        return found

    # ------------------------------------------------------------------ as a queue

    def next(self) -> Row | None:
        return self._waiting.popleft() if self._waiting and not self.expired() else None

    def put_back(self, row: Row) -> None:
        self._waiting.appendleft(row)

    def ended(self, row: Row) -> None:
        added = self._go_beyond(row.workload, row.contestant)
        if added is not None:
            self._waiting.append(added)

    def _rows(self) -> list[Row]:
        return [
            r for r in self._results.rows(SEARCH) if r.workload in self._entries and r.contestant in self._contestants
        ]

    def _go_beyond(self, workload: str, contestant: str) -> Row | None:
        rows = [row for row in self._rows() if (row.workload, row.contestant) == (workload, contestant)]
        if not rows or any(row.status is None for row in rows):
            return None
        best = best_of(self._results, rows)
        if best is None:
            return None
        entry, tried = self._entries[workload], [row.point for row in rows]
        trial = one_beyond(entry, self._contestants[contestant], self._rules, tried, best.point)
        if trial is None:
            return None
        self._results.add_trials([trial])
        return self._rows()[-1]


def best_of(results: Results, rows: Sequence[Row]) -> Row | None:
    """The first to the target; where nobody reached it, the best value; None if there is none.

    A trial that diverged or crashed is behind all others, however good it was before.
    """
    if not rows:
        return None
    about = results.workloads()[rows[0].workload]
    direction = about["facts"]["direction"]
    sign = 1.0 if direction == LOWER else -1.0
    ranked = []
    for row in rows:
        curve = results.evaluations(row.id)
        values = [sign * value for _, value, _ in curve if value is not None]
        if row.steps_to_target is not None:
            reached = crossing.reached(row.steps_to_target, curve, about["target"], direction, about["untrained"])
            ranked.append((0, reached.steps, row.number, row))
        elif values:
            ranked.append((1 if row.status in (OVER_BUDGET, CENSORED) else 2, min(values), row.number, row))
    return min(ranked, key=lambda ranks: ranks[:3])[-1] if ranked else None
