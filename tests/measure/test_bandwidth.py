"""The probe does the traffic it claims, and says what it measured."""

from __future__ import annotations

import pytest
import torch

from fallline.lower.native.library import NativeUnavailable, library
from fallline.measure.bandwidth import DISTANCES, MAX_READS, MAX_WRITES, Sweep, probe


@pytest.fixture
def native() -> None:
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("reads", range(1, MAX_READS + 1))
@pytest.mark.parametrize("threads", [1, 2])
def test_sweep_writes_the_sums_into_the_written_streams_only(reads: int, threads: int) -> None:
    elements = 40_037  # enough for two threads, and no multiple of anything
    for writes in range(min(reads, MAX_WRITES) + 1):
        sweep = Sweep(reads, writes, elements, threads)
        start = torch.arange(sweep._memory.numel(), dtype=torch.float32).view_as(sweep._memory) % 251
        sweep._memory.copy_(start)
        sweep.run(DISTANCES[-1])
        expected = start.clone()
        expected[:writes, :elements] = start[:, :elements].sum(0)
        assert torch.equal(sweep._memory, expected)
        assert sweep.bytes == 4 * elements * (reads + writes)


@pytest.mark.usefixtures("native", "one_thread")
def test_probe_says_how_it_measured() -> None:
    found = probe(3, 2, 10_000, samples=4)
    assert (found.reads, found.writes, found.elements, found.threads) == (3, 2, 10_000, 1)
    assert found.method == f"native {library().isa}"
    assert found.ahead in DISTANCES
    assert len(found.samples) == 4
    assert 0 < found.median <= found.best


@pytest.mark.usefixtures("native")
def test_distance_for_flushed_sweeps_is_chosen_with_flushed_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, log = Sweep(2, 1, 1000, 1), []
    monkeypatch.setattr(sweep, "run", lambda ahead=0: log.append(ahead))
    assert sweep.best_distance(rounds=2, before=lambda: log.append("flush")) in DISTANCES
    timed = log[log.index("flush") :]
    assert timed[::2] == ["flush"] * 2 * len(DISTANCES) and sorted(timed[1::2]) == sorted(2 * DISTANCES)


@pytest.mark.usefixtures("one_thread")
def test_without_the_library_a_copy_is_measured_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_NATIVE", "0")
    found = probe(4, 3, 10_000, samples=3)
    assert found.method == "torch copy"
    assert (found.reads, found.writes) == (1, 1)
    assert found.median > 0


@pytest.mark.usefixtures("one_thread")
def test_time_limit_still_gives_three_samples() -> None:
    assert len(probe(2, 1, 10_000, samples=100, seconds=0.0).samples) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"reads": 0, "writes": 0, "elements": 10}, "reads must be from 1 to 8, got 0"),
        ({"reads": 9, "writes": 0, "elements": 10}, "reads must be from 1 to 8, got 9"),
        ({"reads": 3, "writes": 4, "elements": 10}, "writes must be from 0 to 3, got 4"),
        ({"reads": 8, "writes": 7, "elements": 10}, "writes must be from 0 to 6, got 7"),
        ({"reads": 2, "writes": 1, "elements": 0}, "elements must be from 1"),
        ({"reads": 2, "writes": 1, "elements": 10, "threads": 0}, "threads must be from 1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sweep(**arguments)
