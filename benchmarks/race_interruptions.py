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
from fallline.race.clock.pace import STEPS
from fallline.race.results import Results
from fallline.race.verdict.summary import summarize

TASK = str(Path(race_task.__file__).resolve())
RACE = ("-o", "adamw,schedule_free_adamw,lion", "--trials", "2", "--studies", "8")
ROUNDS = ("-o", "adamw,twin=adamw,nadamw,lion", "--trials", "2", "--within", "6%")
"""Near enough to each other for many looks."""
RAY = ("--engine", "ray")


def start(task: str, results: Path, *arguments: str) -> subprocess.Popen[str]:
    # Its trials take a fraction of a second; only with a checkpoint at every evaluation can they go on in the middle.
    settings = ("--clock", "steps", "--save-every", "0", "--jobs", "2", "-q", "--results", str(results))
    command = [sys.executable, "-m", "fallline", "race", task, *arguments, *settings]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(task: str, results: Path, *arguments: str) -> str:
    """Runs a race to its end; returns the text that it prints."""
    process = start(task, results, *arguments)
    out, error = process.communicate()
    if process.returncode:
        raise RuntimeError(error)
    return out


def interrupt(task: str, results: Path, *arguments: str, after: Sequence[float]) -> int:
    """Starts the race again and again, and kills it after so many evaluations; returns how often it came to that."""
    done = 0
    for count in after:
        process = start(task, results, *arguments)
        while evaluations(results) < count and process.poll() is None:
            time.sleep(0.005)
        # Between two evaluations too.
        time.sleep(0.05 * (count % 1))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            done += 1
        process.communicate()
    return done


def stored(results: Path, *, early_stop: bool) -> dict[str, Any]:
    """Everything that must not depend on interruptions: all but seconds and attempts.

    Which trials are ended early, and where, does depend on what ran beside them.  What does not: which trials there
    are, every study's time to target as it counts, and what an evaluation of a trial at a step gave.
    """
    with Results(results, writable=False) as opened:
        rows, summary = opened.rows(), summarize(opened)
        curves = {row.id: opened.evaluations(row.id) for row in rows}
    ends = [] if early_stop else [(row.status, row.steps, row.steps_to_target) for row in rows]
    return {
        "trials": [(row.contestant, row.study, row.number, row.seed, row.point) for row in rows],
        "ends": ends,
        "times": {clock: table.cells for clock, table in summary.times.items() if clock == STEPS},
        "values": {(trial, step): value for trial, curve in curves.items() for step, value, _ in curve},
        "remarks": [row.note for row in rows if "not deterministic" in (row.note or "")],
    }


def differences(whole: Path, other: Path, *, early_stop: bool) -> list[str]:
    """In what a race that was interrupted differs from the whole one; nothing, if all is well."""
    first, second = (stored(path, early_stop=early_stop) for path in (whole, other))
    if early_stop:
        common = first["values"].keys() & second["values"].keys()
        for found in (first, second):
            found["values"] = {key: found["values"][key] for key in common}
    return [name for name in first if first[name] != second[name]]


def leaderboard(out: str) -> list[str]:
    """Rank, contestant and steps to target of every row, and the verdict: what has no seconds in it."""
    rows = [line.split()[:3] for line in out.splitlines() if line[:1].isdigit()]
    return [" ".join(row) for row in rows] + out.splitlines()[-1:]


def kills(count: int = 20, *, early_stop: bool = False) -> dict[str, Any]:
    """At random moments: after so many evaluations of the race, and some milliseconds more."""
    race = (*RACE, "--early-stop" if early_stop else "--no-early-stop")
    moments = random.Random(int(early_stop))
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole.sqlite", Path(folder) / "killed.sqlite"
        out = finish(TASK, whole, *race)
        total = evaluations(whole)
        done = interrupt(TASK, killed, *race, after=sorted(moments.uniform(0.0, 0.9 * total) for _ in range(count)))
        again = finish(TASK, killed, *race)
        differing = differences(whole, killed, early_stop=early_stop)
        board = leaderboard(out) == leaderboard(again)
        kept = stored(killed, early_stop=early_stop)
        return {
            "killed": done,
            "trials": len(kept["trials"]),
            "evaluations": len(kept["values"]),
            "differs": differing,
            "leaderboard the same": board,
            "ok": not differing and board and done == count,
        }


def looks(results: Path) -> dict[str, Any]:
    """The findings of a race in rounds, without seconds, and without studies that began ahead of their round."""
    with Results(results, writable=False) as opened:
        rows, summary = opened.rows(), summarize(opened)
    studies = {standing.contestant: standing.studies for standing in summary.looks[-1].look.standings}
    return {
        "looks": [{**look.as_data(), "seconds_used": None} for look in summary.looks],
        "trials": sorted(
            (row.contestant, row.study, row.number, row.seed) for row in rows if row.study < studies[row.contestant]
        ),
        "times": {clock: table.cells for clock, table in summary.times.items() if clock == STEPS},
        "verdict": summary.verdict,
    }


def round_kills(count: int = 20) -> dict[str, Any]:
    """A race in rounds, killed at random moments: the same rounds, looks and verdict."""
    return _round_kills(count, seed=3)


def ray_round_kills(count: int = 20) -> dict[str, Any]:
    """The same on Ray, where a race that is killed takes its cluster along: held against local processes."""
    return _round_kills(count, *RAY, seed=4)


def _round_kills(count: int, *engine: str, seed: int) -> dict[str, Any]:
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole.sqlite", Path(folder) / "killed.sqlite"
        finish(TASK, whole, *ROUNDS)
        total = evaluations(whole)
        after = sorted(moments.uniform(0.0, 0.8 * total) for _ in range(count))
        done = interrupt(TASK, killed, *ROUNDS, *engine, after=after)
        finish(TASK, killed, *ROUNDS, *engine)
        first, second = looks(whole), looks(killed)
    differing = [name for name in first if first[name] != second[name]]
    return {
        "killed": done,
        "looks": len(second["looks"]),
        "trials": len(second["trials"]),
        "verdict": second["verdict"],
        "differs": differing,
        "ok": not differing and done == count,
    }


def ray_kills(count: int = 6) -> dict[str, Any]:
    """Ray actors killed while they train; the race that started them goes on."""
    import psutil

    moments = random.Random(2)
    with tempfile.TemporaryDirectory() as folder:
        local, on_ray = Path(folder) / "local.sqlite", Path(folder) / "ray.sqlite"
        race = (*RACE, "--no-early-stop")
        out = finish(TASK, local, *race)
        process = start(TASK, on_ray, *race, "--engine", "ray")
        done = 0
        while process.poll() is None:
            actors = _actors(psutil.Process(process.pid))
            if done < count and actors and evaluations(on_ray) > 100 * done:
                os.kill(moments.choice(actors), signal.SIGKILL)
                done += 1
            time.sleep(0.05)
        again, error = process.communicate()
        same = not differences(local, on_ray, early_stop=False) and leaderboard(out) == leaderboard(again)
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


def evaluations(results: Path) -> int:
    """How many are stored, also while a race writes them."""
    if not results.exists():
        return 0
    database = sqlite3.connect(results, timeout=30)
    try:
        return int(database.execute("select count(*) from evaluation").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # no tables yet
    finally:
        database.close()
