"""CPU time is the cost of work that one thread does without waiting for anybody."""

from __future__ import annotations

import select
import subprocess
import threading
from collections.abc import Callable

import pytest

from fallline.measure import thread_time
from fallline.measure.clock import both_times_of
from fallline.measure.interleave import for_rounds, interleave
from fallline.measure.thread_time import UNKNOWN, Usage, obstacle, usage

CALLS = 20


def work() -> None:
    sum(range(100_000))


def work_elsewhere() -> None:
    other = threading.Thread(target=work)
    other.start()
    other.join()


def found(arm: Callable[[], None]) -> str | None:
    before = usage()
    for _ in range(CALLS):
        arm()
    return obstacle(before, usage(), CALLS)


@pytest.mark.skipif(usage() is None, reason="the system does not count waits")
def test_work_of_this_thread_alone_has_no_obstacle_at_any_load() -> None:
    assert found(work) is None


@pytest.mark.skipif(usage() is None, reason="the system does not count waits")
def test_work_of_another_thread_is_an_obstacle() -> None:
    assert found(work_elsewhere) == "other threads do a part of the work"


@pytest.mark.skipif(usage() is None, reason="the system does not count waits")
def test_a_process_that_was_started_is_an_obstacle_as_long_as_it_runs() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as loader:
        assert found(work) == "processes that this one started may do a part of the work"
        assert loader.stdin is not None
    assert found(work) is None


@pytest.mark.skipif(usage() is None, reason="the system does not count waits")
def test_a_call_that_waits_for_somebody_is_an_obstacle() -> None:
    before = Usage(1.0, 0.0, 5)
    assert obstacle(before, Usage(2.0, 0.0, 5 + CALLS), CALLS) == "a call waits for something else than a processor"
    assert obstacle(before, Usage(2.0, 0.0, 5), CALLS) is None
    counted = usage()
    select.select([], [], [], 0.001)  # whatever else runs, this gives up the processor
    after = usage()
    assert counted is not None and after is not None and after.waits > counted.waits


def test_where_waits_are_not_counted_the_wall_clock_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_time, "resource", None)
    assert usage() is None and found(work) == UNKNOWN


def test_both_clocks_are_read_and_cpu_samples_belong_to_the_same_rounds() -> None:
    wall, cpu = both_times_of(work, 5)
    assert cpu > 0.0 and wall > 0.0
    samples = interleave({"a": work, "b": work}, for_rounds(4), sample_seconds=0.001, alike=["a", "b"])
    assert {name: len(times) for name, times in samples.cpu.items()} == {"a": 4, "b": 4}
    assert samples.calls["a"] == samples.calls["b"], "or the one with fewer calls would seem dearer"
