"""The cost of a race's machinery, whether trials side by side move the clock, and how well ratios of steps are known.

The first two are for a quiet machine; ratios must be told with their errors at any load.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.settings import ROOT
from fallline.measure import machine
from fallline.measure.stats import NORMAL_95, bootstrap_median, paired_ratio
from fallline.race.clock.sessions import CPU_CLOCK, Session, combined, ratio_errors
from fallline.race.contestants import named
from fallline.race.engine import ONE_THREAD, LocalEngine
from fallline.race.plan import SELF, STEPS_CLOCK, Entry, Rules
from fallline.race.progress import Progress
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.race.step_costs import measure_steps, workload_request
from fallline.workloads import load

WORKLOAD = "chars"


def overhead(rounds: int = 20, steps: int = 350, trials: int = 9) -> dict[str, Any]:
    """The overhead of a trial beside a loop written by hand, over its training: the difference of their steps, and
    all that a trial does beside making the model, training and evaluation: checking, saving, writing rows, asking
    whether to go on."""
    command = [sys.executable, "-m", "benchmarks.workers.bare_loop", WORKLOAD, str(rounds)]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, check=True)
    found = json.loads(ended.stdout)
    by_hand = found["steps"]["by hand"]
    ratio = paired_ratio(found["steps"]["in a trial"], by_hand)
    making = statistics.median(found["making"])
    engine = LocalEngine(1)
    try:
        # The first starts the worker.
        beside = [_share_beside_training(engine, steps, seed, making) for seed in range(trials + 1)][1:]
    finally:
        engine.close()
    share = ratio.value - 1 + statistics.median(beside)
    return {
        "share": share,
        "steps": [ratio.value - 1, ratio.low - 1, ratio.high - 1],
        "turns": len(by_hand),
        "beside training and evaluation": [statistics.median(beside), min(beside), max(beside)],
        "evaluations a trial": steps // (load(WORKLOAD).eval_every or 1),
        "ms of a step by hand": 1e3 * statistics.median(by_hand),
        "ms of making a model by hand": 1e3 * making,
        "ok": share <= 0.01,
    }


def _share_beside_training(engine: LocalEngine, steps: int, seed: int, making: float) -> float:
    """The overhead of one trial, from the moment it is planned to the row that says how it ended; without the seconds
    that making its model and optimizer would take by hand."""
    changes = {"target": -1.0, "max_steps": steps}
    entry = Entry(WORKLOAD, load(WORKLOAD).replace(**changes), changes)
    moments: list[float] = []
    progress = Progress(
        planned=lambda done, total: moments.append(time.perf_counter()),
        trial_ended=lambda row, status: moments.append(time.perf_counter()),
    )
    rules = Rules(ruleset=SELF, self_factor=1.0, studies=1, clock=STEPS_CLOCK, seed=seed)
    with tempfile.TemporaryDirectory() as folder, Results(Path(folder) / "r.sqlite") as results:
        Race([entry], [named("adamw")], rules, results, engine, progress).run()
        (row,) = results.rows()
    planned, ended = moments
    assert row.training_seconds is not None and row.evaluation_seconds is not None
    beside = ended - planned - row.training_seconds - row.evaluation_seconds - making
    return beside / row.training_seconds


def parallel(rounds: int = 6, seconds: float = 2.0) -> dict[str, Any]:
    """Calibrated step times in races of one and of two jobs, in turns, and beside a busy neighbour.

    The clock is measured while no trial runs, so that they must not move it; the neighbour shows what running ones
    would do.
    """
    order = random.Random(0)
    windows = [{jobs: _window(jobs, seconds) for jobs in order.sample((1, 2), 2)} for _ in range(rounds)]
    with _neighbour():
        busy = _window(1, seconds)
    rows = {}
    for name in busy:
        one, two = ([window[jobs][name] for window in windows] for jobs in (1, 2))
        ratio = statistics.median(two) / statistics.median(one)
        # The noise band: by how much the same measurement differs from window to window.
        band = max(0.01, (max(one) - min(one)) / 2 / statistics.median(one))
        rows[name] = {
            "ms with one job": 1e3 * statistics.median(one),
            "ms with two jobs": 1e3 * statistics.median(two),
            "change": ratio - 1,
            "band": band,
            "ms beside a trial": 1e3 * busy[name],
            "ok": abs(ratio - 1) <= band,
        }
    return {"contestants": rows, "ok": all(row["ok"] for row in rows.values())}


def _window(jobs: int, seconds: float) -> dict[str, float]:
    """Step times in a race whose jobs have run trials before, so that their processes are there with model and data.

    One race at a time: of two, the second would take another processor.
    """
    engine = LocalEngine(jobs)
    try:
        _run_trials(engine, jobs)
        return _steps(engine, seconds)
    finally:
        engine.close()


def _run_trials(engine: LocalEngine, count: int) -> None:
    """So many, side by side as far as there are jobs."""
    changes = {"target": -1.0, "max_steps": 60}
    entry = Entry(WORKLOAD, load(WORKLOAD).replace(**changes), changes)
    rules = Rules(ruleset=SELF, self_factor=1.0, studies=count, clock=STEPS_CLOCK)
    with tempfile.TemporaryDirectory() as folder, Results(Path(folder) / "r.sqlite") as results:
        Race([entry], [named("adamw")], rules, results, engine).run()


def _steps(engine: LocalEngine, seconds: float) -> dict[str, float]:
    entry = Entry(WORKLOAD, load(WORKLOAD))
    request = workload_request(entry, entry.workload.target)
    contestants = [named("adamw"), named("schedule_free_adamw")]
    found = measure_steps(engine, request, contestants, seconds=seconds).found
    return {name: cost.step_seconds for name, cost in found.items()}


def ratios(count: int = 15, seconds: float = 15.0, together: int = 3) -> dict[str, Any]:
    """Step times of twins, whose ratio is 1, in so many processes: by how much it is off, and what its error says.

    ``each alone`` is the error from the interval of each time by the wall clock, as if they had been measured in
    different hours.  ``together`` sessions are combined as a race does after its rounds.
    """
    sessions = [_twins(seconds) for _ in range(count)]
    by_wall = [dataclasses.replace(session, obstacle="not asked for") for session in sessions]
    groups = [sessions[at : at + together] for at in range(0, count - together + 1, together)]
    rows = {
        "wall, each alone": [_alone(session) for session in by_wall],
        "wall, paired rounds": [_ratio([session]) for session in by_wall],
        "the race's clock, paired rounds": [_ratio([session]) for session in sessions],
        f"the same, {together} processes": [_ratio(group) for group in groups],
    }
    found = {name: _coverage(pairs) for name, pairs in rows.items()}
    within = [row["within two errors"] for name, row in found.items() if "race's" in name]
    return {
        **found,
        "by CPU time": sum(session.clock == CPU_CLOCK for session in sessions),
        "share of the time off the processor": statistics.median(session.off_processor for session in sessions),
        "between processes beyond rounds": _placement(sessions),
        "load average": machine.load_average(),
        # Three standard errors below 95 %.
        "ok": min(within) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / count),
    }


def _twins(seconds: float) -> Session:
    engine = LocalEngine(1)
    try:
        entry = Entry(WORKLOAD, load(WORKLOAD))
        request = workload_request(entry, entry.workload.target)
        (session,) = measure_steps(engine, request, [named("adamw"), named("twin=adamw")], seconds=seconds).sessions
        return session
    finally:
        engine.close()


def _alone(session: Session) -> tuple[float, float]:
    """The logarithm of the ratio of two medians, and its standard error from the interval of either."""
    first, second = (bootstrap_median(session.seconds[name]) for name in ("adamw", "twin"))
    errors = [math.log(found.high / found.low) / (2 * NORMAL_95) for found in (first, second)]
    return math.log(second.value / first.value), math.hypot(*errors)


def _ratio(sessions: Sequence[Session]) -> tuple[float, float]:
    times = combined(sessions)
    return math.log(times["twin"] / times["adamw"]), ratio_errors(sessions)[frozenset(("adamw", "twin"))]


def _coverage(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The coverage of ratios whose true logarithm is 0."""
    return {
        "calibrations": len(pairs),
        "off by, %": 100 * math.sqrt(statistics.fmean(off**2 for off, _ in pairs)),
        "error said, median, %": 100 * statistics.median(error for _, error in pairs),
        "error said, largest, %": 100 * max(error for _, error in pairs),
        "within two errors": statistics.fmean(abs(off) <= 2 * error for off, error in pairs),
    }


def _placement(sessions: Sequence[Session]) -> float:
    """One contestant's standard deviation between processes that rounds do not explain."""
    offs = [math.log(session.typical()["twin"] / session.typical()["adamw"]) for session in sessions]
    rounds = [session.ratio_error("adamw", "twin") for session in sessions]
    excess = statistics.fmean(off**2 for off in offs) - statistics.fmean(error**2 for error in rounds)
    return math.sqrt(max(0.0, excess) / 2)


@contextmanager
def _neighbour() -> Iterator[None]:
    """Another race's trial on the second processor."""
    code = (
        "from benchmarks.race_timing import WORKLOAD\n"
        "import torch\nfrom fallline.race.engine.worker import pin\n"
        "from fallline.training.scheduled_optimizer import ScheduledOptimizer\n"
        "from fallline.training.training import Training\nfrom fallline.workloads import load\n"
        "pin(1)\n"
        "prepare = lambda model: ScheduledOptimizer(torch.optim.AdamW(model.parameters()))\n"
        "Training(load(WORKLOAD), 0, prepare).advance(10**9)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    time.sleep(4.0)
    try:
        yield
    finally:
        process.kill()
        process.wait()
