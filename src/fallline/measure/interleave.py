"""Times several arms side by side: one sample of each per round, in random order.

A disturbance of the machine slows all arms of a round, so that ratios within rounds hold where absolute times do
not. A rule decides after each round whether there are enough rounds, and the result says why it ended.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fallline.measure.clock import Arm, Wait, both_times_of, calls_for, no_garbage_collection, nothing_to_wait_for
from fallline.measure.ranks import smallest_rank_sum_p
from fallline.measure.stats import ALPHA, Estimate, bootstrap_median, compare, paired_ratio, spread

WARM_ROUNDS = 8
STILL_WARMING = 0.95  # an arm is not warm yet if a sample takes less than this share of the one before
LOOKS = (18, 36, 72)
"""Rounds after which a comparison may end. 18 are enough for a clear case among 250 comparisons; 72 find a difference
of 10 % at a noise of 7 % per sample in 97 of 100 cases, among 90 comparisons (tests/measure/test_calibration.py)."""
FAR_BEHIND = 5.0
"""An arm slower than the fastest by this factor needs few samples, because its place is clear."""
RARELY = LOOKS[0] // 2
"""Rounds between samples of an arm that is far behind and so slow that even a few samples would take all the time: it
gets two samples before the first look, which show its time, and is not compared."""
SHORT, CALLS = 0.1, 5
"""An arm whose call takes less than this number of seconds is called this often before it counts as far behind."""
LONG = 2.0
"""Seconds; a call that takes this long needs no warm-up."""
SAME = 0.01
"""A ratio that is known to be this close to 1 is a tie, which more rounds need not resolve."""


@dataclasses.dataclass
class Samples:
    """Seconds per call of each arm, round by round."""

    seconds: dict[str, list[float]]
    warm_up: dict[str, list[float]]
    """The calls and rounds that were discarded: single calls, then rounds until no arm became faster."""
    calls: dict[str, int]
    """Calls per sample; the sample is their mean."""
    stopped: str
    every: dict[str, int] = dataclasses.field(default_factory=dict)
    """Arms that were not timed in every round, with the number of rounds between their samples."""
    cpu: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    """CPU seconds of this thread per call, in the same rounds; see ``measure/thread_time.py``."""

    def median(self, arm: str) -> Estimate:
        return bootstrap_median(self.seconds[arm])

    def ratio(self, numerator: str, denominator: str, level: float = 0.95) -> Estimate:
        """The ratio of the first arm's time to the second's."""
        return paired_ratio(self.seconds[numerator], self.seconds[denominator], level=level)

    @property
    def rounds(self) -> int:
        return max(map(len, self.seconds.values()))

    @property
    def noise(self) -> float:
        """The largest relative spread of any arm."""
        return max(map(spread, self.seconds.values()))

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Thinning:
    """Arms that are timed less often when they are far behind the fastest of them."""

    names: Sequence[str]
    every: int = 4
    """The rounds from one sample to the next, few enough for a verdict; see :func:`rounds_between`."""
    seconds: float = math.inf
    """The time that these samples may take up to the first look; an arm that would take longer is timed rarely."""
    rarely: int = RARELY
    """The rounds from one sample to the next of such an arm; see :func:`rounds_between_slowest`."""
    compiling: Sequence[str] = ()
    """The arms among them whose first call may compile, so that its time says nothing about the next."""


def rounds_between(family: int) -> int:
    """The rounds between samples of an arm far behind, few enough to settle it among so many comparisons.

    >>> rounds_between(1), rounds_between(90), rounds_between(1000)
    (4, 3, 2)
    """
    for every in (4, 3):
        # The p-value is doubled, because one sample may be out of order.
        p = 2 * smallest_rank_sum_p(math.ceil(LOOKS[0] / every), LOOKS[0])
        if p * len(LOOKS) * family <= ALPHA:
            return every
    return 2


def rounds_between_slowest(family: int) -> int:
    """The same for an arm that is too slow: three samples if these can settle it, otherwise two to show its time.

    >>> rounds_between_slowest(1), rounds_between_slowest(90)
    (6, 9)
    """
    p = smallest_rank_sum_p(3, LOOKS[0])
    return LOOKS[0] // 3 if p * len(LOOKS) * family <= ALPHA else RARELY


Rule = Callable[[Mapping[str, list[float]]], str | None]
"""A rule that is asked after every round; it returns why the rounds are enough, or None."""


def interleave(
    arms: Mapping[str, Arm],
    enough: Rule,
    *,
    seed: int = 0,
    sample_seconds: float = 0.005,
    before: Arm | None = None,
    wait: Wait = nothing_to_wait_for,
    thin: Thinning | None = None,
    in_cache: bool = False,
    alike: Collection[str] = (),
) -> Samples:
    """Takes samples of all arms until ``enough`` gives a reason to end.

    ``before`` runs ahead of every sample, outside the clock (a cache flush); a sample is then a single call.
    Without it a sample repeats short calls until it lasts ``sample_seconds``. ``in_cache`` calls an arm once, untimed,
    right before it is timed, so that its memory is in the cache, whatever the arm before it left there.  Arms that are
    ``alike`` are called equally often in a sample: the first call finds the caches full of another arm's data, and an
    arm with fewer calls, because a busy machine made its first ones slow, would seem dearer.
    """
    order = random.Random(seed)

    cpu: dict[str, list[float]] = {name: [] for name in arms}

    def timed(name: str, calls: int = 1) -> float:
        if before is not None:
            before()
        if in_cache:
            arms[name]()
        by_wall, by_cpu = both_times_of(arms[name], calls, wait)
        cpu[name].append(by_cpu)
        return by_wall

    warm_up = {name: [timed(name)] for name in arms}
    for name, taken in warm_up.items():
        if taken[0] < LONG or thin is None or name not in thin.names or name in thin.compiling:
            taken.append(timed(name))
    every = _every(warm_up, thin, timed) if thin else {}
    calls = {name: 1 if before else calls_for(min(single), sample_seconds) for name, single in warm_up.items()}
    if alike and not before:
        typical = statistics.median(min(warm_up[name]) for name in alike)
        calls |= dict.fromkeys(alike, calls_for(typical, sample_seconds))
    seconds: dict[str, list[float]] = {name: [] for name in arms}

    def one_round(into: dict[str, list[float]], names: Sequence[str]) -> None:
        for name in order.sample(list(names), len(names)):
            into[name].append(timed(name, calls[name]))

    with no_garbage_collection():
        close = [name for name in arms if name not in every]
        for _ in range(WARM_ROUNDS):
            one_round(warm_up, close)
            if all(warm_up[name][-1] > STILL_WARMING * warm_up[name][-2] for name in close):
                break
        for number in itertools.count():
            one_round(seconds, [name for name in arms if number % every.get(name, 1) == 0])
            stopped = enough(seconds)
            if stopped is not None:
                break
    warm = {name: times[len(warm_up[name]) :] for name, times in cpu.items()}
    return Samples(seconds, warm_up, calls, stopped or "", every, warm)


def _every(warm_up: dict[str, list[float]], thin: Thinning, timed: Callable[[str], float]) -> dict[str, int]:
    samples = math.ceil(LOOKS[0] / thin.every)
    return {
        name: thin.every if samples * min(warm_up[name]) <= thin.seconds else thin.rarely
        for name in _far_behind(warm_up, thin.names, timed)
    }


def _far_behind(warm_up: dict[str, list[float]], names: Sequence[str], timed: Callable[[str], float]) -> list[str]:
    """Judges arms by their best calls, because a short interruption makes any single call of a quick arm slow."""
    while True:
        fastest = min((min(warm_up[name]) for name in names), default=0.0)
        far = [name for name in names if min(warm_up[name]) > FAR_BEHIND * fastest]
        again = [name for name in far if len(warm_up[name]) < CALLS and min(warm_up[name]) < SHORT]
        if not again:
            return far
        for name in again:
            warm_up[name].append(timed(name))


def side_by_side(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether the samples of two arms are pairs; arms that were timed equally often were timed in the same rounds."""
    return len(first) == len(second)


def until(settled: Callable[[Mapping[str, list[float]], int], str | None], *, least: int, seconds: float) -> Rule:
    """Ends when ``settled``, which is given the samples and the number of rounds, names a reason, or when the time is
    over; after ``least`` rounds at the earliest."""
    start: list[float] = []

    def enough(found: Mapping[str, list[float]]) -> str | None:
        now, done = time.perf_counter(), _rounds(found)
        if not start:
            start.append(now)
        if done < least:
            return None
        return settled(found, done) or (f"at the time limit of {seconds:g} s" if now - start[0] > seconds else None)

    return enough


def until_decided(names: Sequence[str], *, seconds: float, family: int = 1, looks: Sequence[int] = LOOKS) -> Rule:
    """Ends when the fastest of ``names`` is known, or when the fastest ones are known to differ by less than ``SAME``.

    It looks at the samples only after the rounds in ``looks``, which bounds the error of repeated looks; verdicts must
    pass ``looks=len(looks)`` to :func:`compare`. ``family`` is the number of comparisons in the whole table.
    """

    def decided(found: Mapping[str, list[float]], done: int) -> str | None:
        verdict = None
        if done in looks:
            compared = [name for name in names if len(found[name]) > math.ceil(done / RARELY)]
            verdict = _decided(found, compared, len(looks), family)
        return verdict or (f"at the limit of {looks[-1]} rounds" if done >= looks[-1] else None)

    return until(decided, least=looks[0], seconds=seconds)


def until_all(rules: Sequence[Rule]) -> Rule:
    """Ends when each of several rules has given its reason once."""
    said: dict[int, str] = {}

    def enough(found: Mapping[str, list[float]]) -> str | None:
        for index, rule in enumerate(rules):
            if index not in said and (why := rule(found)) is not None:
                said[index] = why
        return "; ".join(dict.fromkeys(said.values())) if len(said) == len(rules) else None

    return enough


def for_rounds(count: int) -> Rule:
    """Ends after exactly this number of rounds."""
    return lambda found: "as many as asked for" if _rounds(found) >= count else None


def _decided(found: Mapping[str, list[float]], names: Sequence[str], looks: int, family: int) -> str | None:
    if len(names) < 2:
        return "decided"
    fastest = min(names, key=lambda name: statistics.median(found[name]))
    same = False
    for other in names:
        if other == fastest:
            continue
        comparison = compare(
            found[fastest], found[other], paired=side_by_side(found[fastest], found[other]), looks=looks
        )
        if comparison.p * family <= ALPHA:
            continue
        if comparison.ratio.low < 1 - SAME or comparison.ratio.high > 1 + SAME:
            return None
        same = True
    return f"a tie within ±{SAME:.0%}" if same else "decided"


def _rounds(found: Mapping[str, list[float]]) -> int:
    return max(map(len, found.values()))
