"""Arms are interleaved, warm-up is kept apart, and the reason to stop is told."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import pytest

from benchmarks.settings import Settings
from benchmarks.timing import interleave

SETTINGS = Settings(least_rounds=6, most_rounds=12, seconds=60.0, sample_seconds=0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Callable[[], None]]:
    """Arms that take exactly so long, on a clock that only they advance."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def taking(seconds: float, log: list[float] | None = None) -> Callable[[], None]:
        def arm() -> None:
            now[0] += seconds
            if log is not None:
                log.append(seconds)

        return arm

    return taking


def test_every_round_has_every_arm_once_in_changing_order(clock: Callable[..., Callable[[], None]]) -> None:
    log: list[float] = []
    settings = dataclasses.replace(SETTINGS, interval=-1.0)  # never settled
    samples = interleave({"a": clock(1.0, log), "b": clock(2.0, log)}, settings, [("a", "b")])
    assert samples.rounds == 12
    assert samples.stopped == "at the limit of 12 rounds"
    measured = log[-24:]
    rounds = [tuple(measured[i : i + 2]) for i in range(0, 24, 2)]
    assert all(sorted(pair) == [1.0, 2.0] for pair in rounds)
    assert len(set(rounds)) == 2


def test_stops_when_settled(clock: Callable[..., Callable[[], None]]) -> None:
    samples = interleave({"a": clock(1.0), "b": clock(2.0)}, SETTINGS, [("b", "a")])
    assert samples.stopped == "settled to ±1%"
    assert samples.rounds == 10
    assert samples.ratio("b", "a").value == pytest.approx(2.0)


def test_stops_at_the_time_limit(clock: Callable[..., Callable[[], None]]) -> None:
    settings = dataclasses.replace(SETTINGS, seconds=1.0)
    assert interleave({"a": clock(1.0), "b": clock(2.0)}, settings, []).stopped == "at the time limit of 1 s"


def test_warm_up_is_not_among_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [0.0], [0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow_at_first() -> None:
        calls[0] += 1
        now[0] += max(1.0, 16.0 / 2 ** calls[0])

    samples = interleave({"a": slow_at_first}, SETTINGS, [])
    assert set(samples.seconds["a"]) == {1.0}
    assert max(samples.warm_up["a"]) == 8.0


def test_short_arms_are_repeated_within_a_sample(clock: Callable[..., Callable[[], None]]) -> None:
    settings = dataclasses.replace(SETTINGS, sample_seconds=0.01)
    samples = interleave({"short": clock(0.001), "long": clock(1.0)}, settings, [])
    assert samples.calls == {"short": 10, "long": 1}
    assert samples.seconds["short"][0] == pytest.approx(0.001)
