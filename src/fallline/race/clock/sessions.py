"""Step times of contestants from sessions of rounds: their ratios, and how well these are known.

A race compares contestants, so it needs ratios of step times.  Samples of one round belong together, because whatever
slows the machine for a while slows the whole round: a ratio is a mean over rounds of logarithms of ratios within them.
A session is measured in one process, and where memory happens to lie in it favours one contestant or another: ratios
of several sessions differ by more than their rounds say, and only their mean gets rid of that.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from fallline.measure.stats import TRIMMED, trimmed_mean, typical_side_by_side

WALL_CLOCK, CPU_CLOCK = "wall", "cpu"
DISTURBED = 0.02
"""A session whose thread was off its processor for more than this share of the wall time was disturbed."""
PLACEMENT_ERROR = 0.005
"""By how much step times of one contestant differ from process to process beyond what their rounds say: by where its
memory happens to lie.  Relative, one standard deviation; ``make race-checks`` measures it with twins."""
PRIOR_SESSIONS = 6.0
"""The expected spread between sessions counts as much as so many further sessions."""
LEAST_SHARE = 0.1
"""The least part that one of two has in the variance of its best known ratio."""
PRIOR_ROUNDS = 6.0
"""The spread of rounds of all pairs counts beside a pair's own as much as so many more rounds of it would."""
FEWEST_ROUNDS = 4
"""A session of fewer rounds is no evidence of how well its ratios are known."""

Pair = TypeVar("Pair", frozenset[str], tuple[str, str])
"""Two contestants, in any order."""


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Seconds per call, one sample a round."""

    wall: Sequence[float]
    cpu: Sequence[float] = ()
    """CPU seconds of the thread, in the same rounds; empty in files of before it was measured."""


@dataclasses.dataclass(frozen=True)
class Session:
    """Contestants measured side by side in one process."""

    steps: Mapping[str, Rounds]
    switches: Mapping[str, Rounds] = dataclasses.field(default_factory=dict)
    """To averaged weights and back, of those that have them."""
    obstacle: str | None = None
    """Why CPU time is not the cost of a step here; None if it is."""

    @functools.cached_property
    def clock(self) -> str:
        """CPU time where other programs took the processor away and nothing forbids it; otherwise the wall clock.

        Decided by how long the thread was off its processor, which says nothing of who is faster: a choice by the
        smaller error would make that error look smaller than it is.
        """
        return CPU_CLOCK if self.obstacle is None and self.off_processor > DISTURBED else WALL_CLOCK

    @property
    def off_processor(self) -> float:
        """The share of the wall time in which the thread did not run; 0 where its CPU time is not known."""
        rounds = list(self.steps.values())
        if not all(found.cpu and min(found.cpu) > 0.0 for found in rounds):
            return 0.0
        return max(0.0, 1.0 - sum(sum(found.cpu) for found in rounds) / sum(sum(found.wall) for found in rounds))

    @functools.cached_property
    def seconds(self) -> dict[str, Sequence[float]]:
        """Contestant → seconds per step, round by round, on the clock that counts."""
        return {name: self._timed(found) for name, found in self.steps.items()}

    def switch_over_step(self, name: str) -> float:
        """The time of a switch over that of a step; 0 without averaged weights."""
        if name not in self.switches:
            return 0.0
        return float(np.median(self._timed(self.switches[name])) / np.median(self._timed(self.steps[name])))

    def typical(self) -> dict[str, float]:
        """Seconds per step of each contestant, from what is common to all rounds."""
        return typical_side_by_side(self.seconds)

    def ratio_error(self, first: str, second: str) -> float:
        """The relative standard error of the ratio of two step times, from the spread of their rounds alone."""
        one, other = (np.log(self.seconds[name]) for name in (first, second))
        return trimmed_mean(other - one)[1]

    @functools.cached_property
    def errors(self) -> dict[frozenset[str], float]:
        """Pair of contestants → the error of their ratio from rounds alone; {} of too few rounds.

        A spread is badly known of few rounds.  So it is moderated by that of all pairs, and enlarged as far as two
        errors must be to cover 95 % (Student's variance).
        """
        if not self.is_enough:
            return {}
        own = {frozenset(pair): self.ratio_error(*pair) ** 2 for pair in itertools.combinations(self.steps, 2)}
        rounds = len(next(iter(self.steps.values())).wall)
        freedom = rounds - 2 * int(TRIMMED * rounds) - 1
        common = PRIOR_ROUNDS if len(own) > 1 else 0.0
        pooled = float(np.mean(list(own.values()))) if own else 0.0
        enlarged = (freedom + common) / (freedom + common - 2)
        return {
            pair: math.sqrt(enlarged * (freedom * square + common * pooled) / (freedom + common))
            for pair, square in own.items()
        }

    def _timed(self, rounds: Rounds) -> Sequence[float]:
        return rounds.cpu if self.clock == CPU_CLOCK else rounds.wall

    @property
    def is_enough(self) -> bool:
        return min((len(found.wall) for found in self.steps.values()), default=0) >= FEWEST_ROUNDS


def combined(sessions: Sequence[Session]) -> dict[str, float]:
    """Contestant → seconds per step from all sessions: each has a speed of its own, ratios are common to all.

    The level is that of the first session, so that times which a race has already shown do not move with the load;
    more sessions only refine the ratios.  Contestants that nothing links to the first session are left out.

    >>> quick = Session({"a": Rounds([1.0] * 4), "b": Rounds([2.0] * 4)})
    >>> slow = Session({"a": Rounds([3.0] * 4), "c": Rounds([9.0] * 4)})
    >>> {name: round(seconds, 6) for name, seconds in combined([quick, slow]).items()}
    {'a': 1.0, 'b': 2.0, 'c': 3.0}
    """
    sessions = _linked(sessions)
    names = list(dict.fromkeys(name for session in sessions for name in session.steps))
    if not names:
        return {}
    rows, logs = [], []
    for at, session in enumerate(sessions):
        weight = 1.0 / math.hypot(PLACEMENT_ERROR, _typical_error(session))
        for name, seconds in session.typical().items():
            row = np.zeros(len(names) + len(sessions))
            row[names.index(name)] = row[len(names) + at] = 1.0
            rows.append(weight * row)
            logs.append(weight * math.log(seconds))
    # The least solution of several: contestants and sessions share a constant, which the level below settles.
    found = np.linalg.lstsq(np.array(rows), np.array(logs), rcond=None)[0][: len(names)]
    first = sessions[0].typical()
    level = np.mean([math.log(first[name]) - found[names.index(name)] for name in first])
    return {name: math.exp(level + effect) for name, effect in zip(names, found.tolist(), strict=True)}


def _linked(sessions: Sequence[Session]) -> list[Session]:
    """Those that share a contestant with the first one, or with one that does: no others can be put on its clock."""
    linked, names = [], set(sessions[0].steps) if sessions else set()
    waiting = list(sessions)
    while found := [session for session in waiting if names & set(session.steps)]:
        linked += found
        waiting = [session for session in waiting if session not in found]
        names |= {name for session in found for name in session.steps}
    return [session for session in sessions if session in linked]


def ratio_errors(sessions: Sequence[Session]) -> dict[frozenset[str], float]:
    """Pair of contestants → the relative standard error of the ratio of their step times.

    Sessions are a sample of processes.  The spread between them tells its own error, but of few it tells little; so it
    is moderated by what is expected: the spread of rounds, and ``PLACEMENT_ERROR`` for either contestant.  Pairs that
    no session measured side by side have the sum over a third, or none.
    """
    found = {}
    names = list(dict.fromkeys(name for session in sessions for name in session.steps))
    for pair in itertools.combinations(names, 2):
        error = _pair_error([session for session in sessions if set(pair) <= set(session.steps)], *pair)
        if error is not None:
            found[frozenset(pair)] = error
    for first, second in itertools.combinations(names, 2):
        if frozenset((first, second)) not in found:
            ways = [
                math.hypot(found[frozenset((first, by))], found[frozenset((by, second))])
                for by in names
                if frozenset((first, by)) in found and frozenset((by, second)) in found
            ]
            if ways:
                found[frozenset((first, second))] = min(ways)
    return found


def _pair_error(sessions: Sequence[Session], first: str, second: str) -> float | None:
    pair = frozenset((first, second))
    usable = [session for session in sessions if pair in session.errors]
    if not usable:
        return None
    expected = np.array([session.errors[pair] ** 2 + 2 * PLACEMENT_ERROR**2 for session in usable])
    typical = [session.typical() for session in usable]
    logs = np.array([math.log(times[second] / times[first]) for times in typical])
    weights = (1 / expected) / (1 / expected).sum()
    mean = float(weights @ logs)
    # Each session's squared distance in units of what is expected of it; 1 on average if that is right.
    excess = float((((logs - mean) ** 2) / expected).sum())
    factor = (PRIOR_SESSIONS + excess) / (PRIOR_SESSIONS + len(usable) - 1)
    return math.sqrt(factor / float((1 / expected).sum()))


def _typical_error(session: Session) -> float:
    """The error of one contestant's time beside the others', from rounds alone; 0 where there is nothing to compare."""
    if not session.is_enough:
        return 1.0
    found = list(session.errors.values())
    return float(np.median(found)) / math.sqrt(2) if found else 0.0


def own_errors(names: Iterable[str], ratios: Mapping[Pair, float]) -> dict[str, float]:
    """Contestant → an error of its own, such that errors of two add up to that of their ratio.

    Whoever was compared with nobody has none: there is no ratio to be wrong about.

    >>> {name: round(e, 3) for name, e in own_errors("ab", {("a", "b"): 0.02}).items()}
    {'a': 0.014, 'b': 0.014}
    """
    squares: dict[str, dict[str, float]] = {name: {} for name in names}
    for (first, second), error in ratios.items():
        if first in squares and second in squares:
            squares[first][second] = squares[second][first] = error**2
    total = sum(sum(row.values()) for row in squares.values()) / 2
    count = sum(1 for row in squares.values() if row)
    found = {}
    for name, row in squares.items():
        if not row:
            found[name] = 0.0
            continue
        fitted = (sum(row.values()) - total / (count - 1)) / (count - 2) if count > 2 else sum(row.values()) / 2
        # Errors that were estimated need not fit: two contestants must not be left with none between them.
        found[name] = math.sqrt(max(fitted, LEAST_SHARE * min(row.values())))
    return found
