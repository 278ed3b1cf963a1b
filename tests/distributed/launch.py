"""Starts the processes of a test, and collects what they found.  One launch has many cases: starting costs seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def launch(world: int, folder: Path, *modules: str, timeout: float = 900, reported: bool = True) -> None:
    """Runs the cases of these modules in ``world`` processes; fails with what any of them says.  ``reported``: whether
    all of them live to say it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "MEETING": uuid.uuid4().hex}
    for old in folder.glob("results-*.json"):
        old.unlink()
    logs = [(folder / f"log-{rank}.txt").open("wb") for rank in range(world)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.worker", str(rank), str(world), str(folder), *modules],
            env=environment,
            stdout=logs[rank],
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        for rank in range(world)
    ]
    end = time.monotonic() + timeout
    try:
        for process in processes:
            process.wait(max(1.0, end - time.monotonic()))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for log in logs:
            log.close()
    _check(folder, [process.returncode for process in processes], reported)


def _check(folder: Path, codes: Sequence[int], reported: bool) -> None:
    """Raises with the failures of all processes, by case."""
    failures = []
    counted = set()
    for rank, code in enumerate(codes):
        path = folder / f"results-{rank}.json"
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        counted.add(tuple(results))
        failures += [f"--- {name}, process {rank}:\n{said}" for name, said in results.items() if said != "passed"]
        if code != 0:
            log = (folder / f"log-{rank}.txt").read_text(encoding="utf-8", errors="replace")
            failures.append(f"--- process {rank} ended with {code}:\n{log[-3000:]}")
    assert not failures, "\n".join(failures)
    assert not reported or (len(counted) == 1 and counted != {()}), "the processes ran different cases"
