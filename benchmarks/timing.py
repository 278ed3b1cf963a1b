"""The interleaved timer with the benchmarks' stopping rule: until the ratios are known well, or the time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.settings import Settings
from fallline.measure import interleave as measure
from fallline.measure.clock import Arm
from fallline.measure.interleave import Samples, until
from fallline.measure.stats import paired_ratio

__all__ = ["Arm", "Samples", "interleave"]


def interleave(arms: Mapping[str, Arm], settings: Settings, pairs: Iterable[tuple[str, str]]) -> Samples:
    """Samples of all arms; ``pairs`` are the comparisons that decide when there are enough."""
    rule = until(_settled(list(pairs), settings), least=settings.least_rounds, seconds=settings.seconds)
    return measure.interleave(arms, rule, seed=settings.seed, sample_seconds=settings.sample_seconds)


def _settled(
    pairs: Sequence[tuple[str, str]], settings: Settings
) -> Callable[[Mapping[str, list[float]], int], str | None]:
    """Whether the ratio of every pair is known well; for reports, not for deciding which is faster."""

    def settled(found: Mapping[str, list[float]], done: int) -> str | None:
        if done % 5 == 0:
            ratios = (paired_ratio(found[a], found[b]) for a, b in pairs)
            if all((r.high - r.low) / 2 <= settings.interval * r.value for r in ratios):
                return f"settled to ±{settings.interval:.0%}"
        return f"at the limit of {settings.most_rounds} rounds" if done >= settings.most_rounds else None

    return settled
