"""Times several arms side by side: one sample of each per round, in random order.

What slows the machine for a while slows all arms of a round, so ratios within rounds hold where absolute
times do not. Rounds go on until every comparison is settled or the time is over, and the result says which.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.settings import Settings
from fallline.measure.stats import Estimate, bootstrap_median, paired_ratio, spread

Arm = Callable[[], Any]
WARM_ROUNDS = 8
STILL_WARMING = 0.95  # a sample this much below the one before says that the arm is not warm yet


@dataclasses.dataclass
class Samples:
    """Seconds per call of each arm, round by round."""

    seconds: dict[str, list[float]]
    warm_up: dict[str, list[float]]
    """Thrown away: two single calls, then rounds until no arm became faster."""
    calls: dict[str, int]
    """Calls per sample; the sample is their mean."""
    stopped: str

    def median(self, arm: str) -> Estimate:
        return bootstrap_median(self.seconds[arm])

    def ratio(self, numerator: str, denominator: str, level: float = 0.95) -> Estimate:
        """How many times longer the first arm takes than the second."""
        return paired_ratio(self.seconds[numerator], self.seconds[denominator], level=level)

    @property
    def rounds(self) -> int:
        return min(map(len, self.seconds.values()))

    @property
    def noise(self) -> float:
        """The largest relative spread of any arm."""
        return max(map(spread, self.seconds.values()))

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def interleave(arms: Mapping[str, Arm], settings: Settings, pairs: Iterable[tuple[str, str]]) -> Samples:
    """Samples of all arms; ``pairs`` are the comparisons that decide when there are enough."""
    order = random.Random(settings.seed)
    warm_up = {name: [_seconds(arm, 1), _seconds(arm, 1)] for name, arm in arms.items()}
    calls = {name: _calls(single[-1], settings.sample_seconds) for name, single in warm_up.items()}
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    names, compared = list(arms), list(pairs)
    with _no_garbage_collection():
        for _ in range(WARM_ROUNDS):
            _round(arms, calls, order.sample(names, len(names)), warm_up)
            if all(s[-1] > STILL_WARMING * s[-2] for s in warm_up.values()):
                break
        end = time.perf_counter() + settings.seconds
        stopped = f"at the limit of {settings.most_rounds} rounds"
        for done in range(1, settings.most_rounds + 1):
            _round(arms, calls, order.sample(names, len(names)), seconds)
            if done < settings.least_rounds:
                continue
            if time.perf_counter() > end:
                stopped = f"at the time limit of {settings.seconds:g} s"
                break
            if done % 5 == 0 and _settled(seconds, compared, settings.interval):
                stopped = f"settled to ±{settings.interval:.0%}"
                break
    return Samples(seconds, warm_up, calls, stopped)


def _round(
    arms: Mapping[str, Arm], calls: Mapping[str, int], order: Sequence[str], into: dict[str, list[float]]
) -> None:
    for name in order:
        into[name].append(_seconds(arms[name], calls[name]))


def _seconds(arm: Arm, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        arm()
    return (time.perf_counter() - start) / calls


def _calls(seconds: float, wanted: float) -> int:
    return max(1, min(10_000, math.ceil(wanted / max(1e-9, seconds))))


def _settled(seconds: Mapping[str, list[float]], pairs: Sequence[tuple[str, str]], interval: float) -> bool:
    ratios = (paired_ratio(seconds[a], seconds[b]) for a, b in pairs)
    return all((r.high - r.low) / 2 <= interval * r.value for r in ratios)


class _no_garbage_collection:
    """As in timeit: a collection in the middle of a sample belongs to no arm."""

    def __enter__(self) -> None:
        gc.collect()
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.was_on:
            gc.enable()
