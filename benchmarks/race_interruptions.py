"""Races that are killed at random moments, and races whose workers are: they must end as the uninterrupted one."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import race_task

TASK = str(Path(race_task.__file__).resolve())
RACE = ["-o", "adamw,schedule_free_adamw,lion", "--trials", "2", "--studies", "8", "--clock", "steps", "--jobs", "2"]


def start(results: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fallline", "race", TASK, *RACE, *more, "-q", "--results", str(results)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(results: Path, *more: str) -> str:
    """What a race prints that runs to its end."""
    process = start(results, *more)
    out, error = process.communicate()
    if process.returncode:
        raise RuntimeError(error)
    return out


def stored(results: Path) -> dict[str, list[Any]]:
    """What must not depend on interruptions: everything but seconds and attempts."""
    database = sqlite3.connect(results)
    columns = "contestant, study, number, seed, point, status, steps, steps_to_target"
    trials = database.execute(f"select {columns} from trial order by id").fetchall()
    values = database.execute("select trial, step, value, loss from evaluation order by trial, step").fetchall()
    best = database.execute(
        "select contestant, study, min(steps_to_target) from trial group by contestant, study order by 1, 2"
    ).fetchall()
    doubled = database.execute("select count(*) from evaluation group by trial, step having count(*) > 1").fetchall()
    remarks = database.execute("select note from trial where note like '%not deterministic%'").fetchall()
    database.close()
    return {"trials": trials, "evaluations": values, "best": best, "doubled": doubled, "remarks": remarks}


def leaderboard(out: str) -> list[str]:
    """Rank, contestant and steps to target of every row, and the verdict: what has no seconds in it."""
    rows = [line.split()[:3] for line in out.splitlines() if line[:1].isdigit()]
    return [" ".join(row) for row in rows] + out.splitlines()[-1:]


def kills(count: int = 20, *, early_stop: bool = False) -> dict[str, Any]:
    """At random moments: after so many evaluations of the race, and some milliseconds more."""
    more = () if early_stop else ("--no-early-stop",)
    moments = random.Random(int(early_stop))
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole.sqlite", Path(folder) / "killed.sqlite"
        out = finish(whole, *more)
        total, done = _evaluations(whole), 0
        for share in sorted(moments.uniform(0.0, 0.9) for _ in range(count)):
            process = start(killed, *more)
            while _evaluations(killed) < share * total and process.poll() is None:
                time.sleep(0.005)
            time.sleep(moments.uniform(0.0, 0.05))
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                done += 1
            process.communicate()
        again = finish(killed, *more)
        # With early ends the order of events decides how far a trial goes that can no longer count.
        keys = ["best", "doubled", "remarks"] if early_stop else list(stored(whole))
        before, after = stored(whole), stored(killed)
        same = [key for key in keys if before[key] == after[key]]
        board = leaderboard(out) == leaderboard(again)
        return {
            "killed": done,
            "trials": len(after["trials"]),
            "evaluations": len(after["evaluations"]),
            "same": same,
            "leaderboard the same": board,
            "ok": same == keys and board and done == count and len(before["trials"]) == len(after["trials"]),
        }


def ray_kills(count: int = 6) -> dict[str, Any]:
    """Ray actors killed while they train; the race that started them goes on."""
    import psutil

    moments = random.Random(2)
    with tempfile.TemporaryDirectory() as folder:
        local, on_ray = Path(folder) / "local.sqlite", Path(folder) / "ray.sqlite"
        out = finish(local, "--no-early-stop")
        process = start(on_ray, "--no-early-stop", "--engine", "ray")
        done = 0
        while process.poll() is None:
            actors = _actors(psutil.Process(process.pid))
            if done < count and actors and _evaluations(on_ray) > 150 * done:
                os.kill(moments.choice(actors), signal.SIGKILL)
                done += 1
            time.sleep(0.05)
        again, error = process.communicate()
        same = stored(local) == stored(on_ray) and leaderboard(out) == leaderboard(again)
        database = sqlite3.connect(on_ray)
        (attempts,) = database.execute("select sum(attempts - 1) from trial").fetchone()
        database.close()
    return {"killed": done, "tried again": attempts, "same": same, "ok": same and done == count, "error": error[-500:]}


def _actors(race: Any) -> Sequence[int]:
    import psutil

    found = []
    for child in race.children(recursive=True):
        try:
            if any("ray::Runner" in word for word in child.cmdline()):
                found.append(child.pid)
        except psutil.Error:
            continue
    return found


def _evaluations(results: Path) -> int:
    if not results.exists():
        return 0
    database = sqlite3.connect(results, timeout=30)
    try:
        return int(database.execute("select count(*) from evaluation").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # no tables yet
    finally:
        database.close()
