"""The interleaved timer with the benchmarks' stopping rule: until the ratios are known well, or the time is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.settings import Settings
from fallline.measure import interleave as measure
from fallline.measure.clock import Arm
from fallline.measure.interleave import Samples

__all__ = ["Arm", "Samples", "interleave"]


def interleave(arms: Mapping[str, Arm], settings: Settings, pairs: Iterable[tuple[str, str]]) -> Samples:
    """Samples of all arms; ``pairs`` are the comparisons that decide when there are enough."""
    rule = measure.until_settled(
        list(pairs),
        interval=settings.interval,
        least=settings.least_rounds,
        most=settings.most_rounds,
        seconds=settings.seconds,
    )
    return measure.interleave(arms, rule, seed=settings.seed, sample_seconds=settings.sample_seconds)
