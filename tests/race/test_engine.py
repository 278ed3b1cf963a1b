"""Local workers: where they look for modules, and which processors they take."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from fallline.measure.affinity import claimed
from fallline.race.engine import LocalEngine
from fallline.race.engine.messages import Check, Event, Untrained, WorkloadRequest
from fallline.race.engine.worker import pin
from tests.race import write_workload

SHADOWS = "raise RuntimeError('taken for a module of Python')\n"
SPAWNS = """    import math, multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(math.sqrt, [4.0])[0]
"""


@contextlib.contextmanager
def local(jobs: int) -> Iterator[LocalEngine]:
    engine = LocalEngine(jobs)
    try:
        yield engine
    finally:
        engine.close()


def checked(engine: LocalEngine, workload: Path | str, slot: int = 0) -> Event:
    engine.submit(slot, Check(WorkloadRequest(str(workload)), seed=0))
    return engine.wait()[1]


def value(engine: LocalEngine, workload: Path) -> float | None:
    event = checked(engine, workload)
    assert isinstance(event, Untrained), event
    return event.value


@pytest.fixture
def shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has files named like modules of Python's library."""
    folder = tmp_path / "current"
    folder.mkdir()
    for name in ("random", "queue", "json"):
        (folder / f"{name}.py").write_text(SHADOWS)
    monkeypatch.chdir(folder)
    return folder


def test_a_worker_takes_no_file_of_the_current_folder_for_a_module_of_python(shadowed: Path, tmp_path: Path) -> None:
    workload = write_workload(tmp_path, in_evaluate="    import json\n    return float(json.dumps(7))\n")
    with local(1) as engine:
        assert value(engine, workload) == 7.0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a child of Python 3.10 cannot be told")
def test_a_process_that_a_workload_spawns_takes_none_either(shadowed: Path, tmp_path: Path) -> None:
    with local(1) as engine:
        assert value(engine, write_workload(tmp_path, in_evaluate=SPAWNS)) == 2.0


def test_a_worker_finds_the_modules_that_the_race_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``python -m fallline``, where the current folder is among them under an empty name."""
    (tmp_path / "only_in_the_current_folder.py").write_text("VALUE = 3.0\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = "    import only_in_the_current_folder\n    return only_in_the_current_folder.VALUE\n"
    workload = write_workload(folder, in_evaluate=lines)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with local(1) as engine:
        assert value(engine, workload) == 3.0


def test_a_second_race_takes_a_processor_that_the_first_does_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    # Numbers that no machine has: other tests race at the same time.
    low, high = 10**6 + os.getpid() * 2, 10**6 + os.getpid() * 2 + 1
    taken: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {low, high}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, chosen: taken.extend(chosen), raising=False)
    with contextlib.ExitStack() as claims:
        for slot in (0, 0, 0, 1):
            if (claim := pin(slot)) is not None:
                claims.enter_context(claim)
        assert taken == [low, high, low, high], "with none left, each slot has its own"
    with contextlib.ExitStack() as claims:
        for slot in (1, 1):
            claims.enter_context(cast(socket.socket, pin(slot)))
        assert taken[4:] == [high, low], "those of races that have ended are free"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be pinned here")
def test_a_worker_claims_its_processor_for_as_long_as_it_lives() -> None:
    with local(1) as engine:
        checked(engine, "rosenbrock")
        (used,) = os.sched_getaffinity(engine._workers[0].process.pid)
        _, claim = claimed([used])
        assert claim is None
