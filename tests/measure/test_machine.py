"""The memory that a process may still take is bounded by its containers; a result names the packages it was taken
with."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from fallline.measure import machine

GB = 10**9


def written(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_limits_of_version_2_with_those_above(tmp_path: Path) -> None:
    job = tmp_path / "cgroup" / "slurm" / "job"
    written(tmp_path / "own", "0::/slurm/job")
    written(job / "memory.max", "max")
    written(job / "memory.current", GB)
    written(job.parent / "memory.max", 4 * GB)
    written(job.parent / "memory.current", 3 * GB)
    written(job.parent / "memory.stat", f"anon 7\ninactive_file {GB}")
    assert machine._left_in_groups(tmp_path / "cgroup", tmp_path / "own") == [2 * GB]


def test_limits_of_version_1(tmp_path: Path) -> None:
    written(tmp_path / "own", "5:freezer:/\n4:cpu,memory:/docker/abc\n0::/")
    for folder, limit in (("memory/docker/abc", 5 * GB), ("memory", 2**63 - 4096)):
        written(tmp_path / "cgroup" / folder / "memory.limit_in_bytes", limit)
        written(tmp_path / "cgroup" / folder / "memory.usage_in_bytes", 2 * GB)
    found = machine._left_in_groups(tmp_path / "cgroup", tmp_path / "own")
    assert min(found) == 3 * GB and len(found) == 2


def test_no_groups_no_bounds(tmp_path: Path) -> None:
    assert machine._left_in_groups(tmp_path / "cgroup", tmp_path / "none") == []
    written(tmp_path / "own", "0::/gone\nnonsense")
    assert machine._left_in_groups(tmp_path / "cgroup", tmp_path / "own") == []


def test_versions_of_installed_peers_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "torchao":
            return "0.14.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = machine.describe()
    assert found["packages"] == {"torchao": "0.14.0"} and "torchao" not in found["versions"]


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="read from /proc")
def test_what_is_available_is_less_than_there_is() -> None:
    available, there = machine.available_memory(), machine.memory_gib()
    assert available is not None and there is not None and 0 < available < there * 2**30
