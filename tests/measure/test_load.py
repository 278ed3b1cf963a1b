"""A busy machine is told from a quiet one by what others took, what was waited, and how fast memory was before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fallline.measure import known_speeds, load
from fallline.measure.load import Meter, Share, reason

QUIET = Share(wall=2.0, thread=1.95, others=0.2, stolen=0.0, cores=4, threads=2)


@pytest.mark.parametrize(
    ("changes", "busy"),
    [
        ({}, False),
        ({"others": 4.6}, False),  # 2.3 of 4 processors; 1.7 are left for two threads
        ({"others": 5.2}, True),  # 1.4 are left
        ({"others": None, "stolen": None}, False),
        ({"others": None, "load": 9.0}, True),
        ({"load": 9.0}, False),  # it may be this process's own, and the account of processors knows better
        ({"others": 2.5, "stolen": 2.7}, True),
        ({"thread": 1.3}, True),
        ({"thread": 1.3, "threads": 9}, False),  # more threads than processors wait for each other
        ({"others": 30.0, "threads": 9}, True),
        ({"wall": 0.1, "thread": 0.01, "others": 0.4}, False),  # too short to be judged
    ],
)
def test_a_measurement_must_find_its_processors_free(changes: dict[str, float | None], busy: bool) -> None:
    assert (reason(dataclasses.replace(QUIET, **changes)) is not None) is busy  # type: ignore[arg-type]


def test_memory_far_below_what_it_did_before_is_no_hardware() -> None:
    assert reason(QUIET, speed=12.0, best=23.0) is None
    assert reason(QUIET, speed=11.0, best=23.0) == "the memory moved 11 GB/s for the probe, and 23 before"
    assert reason(QUIET, speed=0.1, best=None) is None, "nothing is known of this machine"


def test_a_meter_counts_what_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process had one of three seconds in which processors ran something."""
    readings = iter(
        [load._Reading(10.0, 1.0, 5.0, (100.0, 7.0)), load._Reading(12.0, 2.5, 6.0, (103.0, 7.5))],
    )
    monkeypatch.setattr(load, "_reading", lambda: next(readings))
    share = Meter().share(threads=2)
    assert (share.wall, share.thread, share.others, share.stolen) == (2.0, 1.5, 2.0, 0.5)


def test_a_system_without_that_account_is_not_called_busy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load, "STAT", tmp_path / "none")
    share = Meter().share(threads=1)
    assert share.others is None and share.stolen is None


def test_only_the_fastest_speed_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path / "cache"))
    key = known_speeds.key_of("a processor", "native avx2", 2, (4, 3), 1 << 26, flushed=True)
    assert known_speeds.fastest(key) is None
    known_speeds.remember(key, 10.0)
    assert not (tmp_path / "cache").exists(), "looking makes no folder"
    for speed in (10.0, 23.0, 0.14):
        known_speeds.remember(key, speed, make_folder=True)
    assert known_speeds.fastest(key) == 23.0 and (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert known_speeds.fastest(known_speeds.key_of("another", "native avx2", 2, (4, 3), 1 << 26, True)) is None
    assert known_speeds.key_of("a processor", "native avx2", 2, (4, 3), 1000, True) is None, "too quick to compare"


@pytest.mark.parametrize("text", ["nonsense", "[1, 2]", '{"a": "fast"}'])
def test_a_damaged_file_of_speeds_knows_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path))
    (tmp_path / "memory-speeds.json").write_text(text)
    assert known_speeds.fastest("a") is None
    known_speeds.remember("a", 5.0)
    assert known_speeds.fastest("a") == 5.0
