"""Disks that are full or cannot be written, where the tests may mount small ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fallline.measure.store import StoreError
from fallline.race.contestants import named
from fallline.race.engine import LocalEngine
from fallline.race.plan import Entry, Rules
from fallline.race.results import Results, Row
from fallline.race.run import Race
from fallline.workloads import load
from tests.race import write_workload

Mount = Callable[[str], None]
RULES = Rules(trials=1, studies=6, clock="steps", early_stop=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Mount]]:
    """A folder that is a disk of its own, and a function that mounts it anew with other options."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, capture_output=True)

    try:
        mount("size=200k")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("disks can be mounted by root only")
    yield place, mount
    subprocess.run(["umount", str(place)], check=True)


def race(engine: LocalEngine, workload: Path, path: Path) -> list[Row]:
    with Results(path) as results:
        Race([Entry(str(workload), load(str(workload)))], [named("adamw")], RULES, results, engine).run()
        return results.rows()


def test_what_was_measured_before_a_disk_was_full_is_kept_and_the_race_goes_on(
    tmp_path: Path, disk: tuple[Path, Mount]
) -> None:
    place, mount = disk
    workload = write_workload(tmp_path, target=1e-12, max_steps=120, eval_every=2)
    path = place / "r.sqlite"
    engine = LocalEngine(1)
    try:
        whole = race(engine, workload, tmp_path / "whole.sqlite")
        (place / "ballast").write_bytes(bytes(40 * 1024))
        with pytest.raises(StoreError, match="the disk is full; what was finished is kept") as error:
            race(engine, workload, path)
        assert "\n" not in str(error.value)
        engine.close()
        with Results(path, writable=False) as results:
            done = sum(len(results.evaluations(row.id)) for row in results.rows())
        assert done > 0
        mount("remount,size=20m")
        engine = LocalEngine(1)
        again = race(engine, workload, path)
    finally:
        engine.close()
    assert [(r.status, r.steps, r.seed, r.point) for r in again] == [
        (r.status, r.steps, r.seed, r.point) for r in whole
    ]


def test_a_disk_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path, disk: tuple[Path, Mount]) -> None:
    place, mount = disk
    mount("remount,ro")
    with pytest.raises(StoreError, match=r"r\.sqlite: cannot be written \(Read-only file system\)"):
        Results(place / "r.sqlite")
