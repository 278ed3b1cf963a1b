"""Checks of the race itself that take too long for tests: ``python -m benchmarks.race_checks [overhead|kills|twins]``.

overhead: a trial with evaluations, checkpoints and the results file against a bare loop of the same steps (≤ 1 %).
kills: a race killed 20 times at random moments ends as the uninterrupted one.
twins: how often the same contestant under two names is called different, and a 15 % dearer twin is placed below,
resampled from the trials of a real race.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fallline.measure.stats import ALPHA
from fallline.score.leaderboard import leaderboard
from fallline.score.separation import compare_all
from fallline.score.times import StudyTimes

WORKLOAD = "chars"
COMMAND = ["-o", "adamw,schedule_free_adamw", "--clock", "steps", "--no-early-stop", "-q", "--jobs", "2"]


def main() -> int:
    chosen = sys.argv[1:] or ["overhead", "kills", "twins"]
    checks: dict[str, Callable[[], bool]] = {"overhead": overhead, "kills": kills, "twins": twins}
    return max(int(not checks[name]()) for name in chosen)


def overhead(steps: int = 100, rounds: int = 5) -> bool:
    """Both interleaved in one process on one thread; evaluation is in neither: it is off the clock."""
    import torch

    from fallline.race.building import build
    from fallline.race.contestants import named
    from fallline.race.training import GO_ON, Assignment, train
    from fallline.workloads import load

    torch.set_num_threads(1)
    workload = load(WORKLOAD).replace(target=-1.0, max_steps=steps, eval_every=25, evaluate=lambda model: 1.0)
    contestant = named("adamw")
    point = dict(contestant.settings)

    def bare() -> None:
        model = workload.new_model(0)
        built = build(contestant, point, model, steps)
        for step in range(steps):
            built.set_rates(step)
            built.optimizer.zero_grad()
            workload.training_loss(model, step, 0).backward()
            built.optimizer.step()

    def trial(folder: str) -> None:
        events = train(workload, Assignment(1, contestant, point, 0, steps, steps, True, f"{folder}/1.pt"))
        event = next(events)
        while event["event"] != "end":
            event = events.send(GO_ON)
        os.unlink(f"{folder}/1.pt")

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        bare()
        for _ in range(rounds):
            start = time.perf_counter()
            bare()
            middle = time.perf_counter()
            trial(folder)
            ratios.append((time.perf_counter() - middle) / (middle - start))
    share = statistics.median(ratios) - 1
    print(f"overhead: {share:+.2%} (median of {rounds}, {min(ratios) - 1:+.2%} to {max(ratios) - 1:+.2%})")
    return share <= 0.01


def _start(results: Path, steps: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fallline", "race", WORKLOAD, *COMMAND, "--max-steps", str(steps)]
    return subprocess.Popen(
        [*command, *more, "--results", str(results)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _stored(results: Path) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(results)
    trials = database.execute(
        "select contestant, study, number, seed, point, status, steps, steps_to_target from trial order by id"
    ).fetchall()
    values = database.execute("select trial, step, value from evaluation order by trial, step").fetchall()
    database.close()
    return [*trials, *values]


def kills(count: int = 20) -> bool:
    """Random moments from a seed; a run that ends before its moment ends the series."""
    arguments = ("--trials", "2", "--studies", "3", "--target", "2.6")
    moments = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole.sqlite", Path(folder) / "killed.sqlite"
        start = time.perf_counter()
        _start(whole, 300, *arguments).communicate()
        length = time.perf_counter() - start
        done = 0
        for _ in range(count):
            process = _start(killed, 300, *arguments)
            try:
                process.wait(moments.uniform(1.0, 5.0 + length / 10))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
                done += 1
        last = _start(killed, 300, *arguments)
        _, error = last.communicate()
        same = last.returncode == 0 and _stored(whole) == _stored(killed)
    print(f"kills: killed {done} times, {'the same trials, values and ends' if same else f'DIFFERENT {error}'}")
    return same


def twins(studies: int = 12, runs: int = 1000) -> bool:
    """Study times of one contestant, resampled for both of a pair."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "r.sqlite"
        _start(results, 500, "--trials", "2", "--studies", str(studies), "--target", "2.5").communicate()
        database = sqlite3.connect(results)
        rows = database.execute(
            "select study, min(steps_to_target) from trial where contestant = 'adamw' group by study"
        ).fetchall()
        database.close()
    pool = np.array([np.inf if steps is None else float(steps) for _, steps in rows])
    generator = np.random.default_rng(0)

    def table(slower: float) -> StudyTimes:
        cells = {
            (name, "w"): dict(enumerate((factor * generator.choice(pool, 5)).tolist()))
            for name, factor in (("a", 1.0), ("b", slower))
        }
        return StudyTimes(("b", "a"), ("w",), {}, cells)

    called = sum(compare_all(table(1.0))[0].separated for _ in range(runs)) / runs
    below = sum(leaderboard(table(1.15)).rows[0].contestant == "a" for _ in range(200)) / 200
    spread = float(np.std(pool[np.isfinite(pool)]) / np.mean(pool[np.isfinite(pool)]))
    print(f"twins: {len(pool)} study times, spread {spread:.1%}; called different in {called:.2%} (α = {ALPHA:.0%})")
    print(f"twins: one whose steps cost 15 % more is placed below in {below:.1%}")
    return called <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5


if __name__ == "__main__":
    sys.exit(main())
