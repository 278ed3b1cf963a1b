"""What a race's machinery costs, and whether trials side by side move the clock.  For a quiet machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fallline.race.contestants import named
from fallline.race.engine import ONE_THREAD, LocalEngine
from fallline.race.plan import SELF, STEPS_CLOCK, Entry, Rules
from fallline.race.preparing import measure_steps, workload_request
from fallline.race.results import Results
from fallline.race.run import Progress, Race
from fallline.workloads import load

WORKLOAD = "chars"


def overhead(steps: int = 350, rounds: int = 8) -> dict[str, Any]:
    """A trial of a race against a loop written by hand, in turns on one processor: how much longer, over its training.

    Both make the model, take the same steps on the same batches and evaluate as often.  The loop has no schedule,
    seeds nothing, checks nothing, stores nothing and asks nobody; the first round warms both up.
    """
    trials, loops = [], []
    engine = LocalEngine(1)
    try:
        with _bare_loop(steps) as bare:
            for seed in range(rounds + 1):
                trials.append(_trial_seconds(engine, steps, seed))
                loops.append(bare(seed))
    finally:
        engine.close()
    shares = [(trial - loop) / training for trial, (loop, training) in zip(trials[1:], loops[1:], strict=True)]
    share = statistics.median(shares)
    return {
        "share": share,
        "lowest": min(shares),
        "highest": max(shares),
        "evaluations a trial": steps // (load(WORKLOAD).eval_every or 1),
        "seconds of training a loop": statistics.median(training for _, training in loops[1:]),
        "ok": share <= 0.01,
    }


def _trial_seconds(engine: LocalEngine, steps: int, seed: int) -> float:
    """Of one trial, from the moment it is planned to the row that says how it ended."""
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
    planned, ended = moments
    return ended - planned


BARE_LOOP = """
import sys
import time

import torch

import fallline
from benchmarks.race_timing import WORKLOAD
from fallline.race.worker import pin
from fallline.workloads import load

pin(0)
workload, steps = load(WORKLOAD), int(sys.argv[1])
for line in sys.stdin:
    seed, training = int(line), 0.0
    begin = time.perf_counter()
    torch.manual_seed(seed)
    model = workload.model(seed).train()
    optimizer = fallline.create("adamw", model, lr=1e-3)
    start = time.perf_counter()
    for step in range(steps):
        optimizer.zero_grad()
        workload.loss(model, workload.batch(step, seed)).backward()
        optimizer.step()
        if (step + 1) % workload.eval_every == 0:
            training += time.perf_counter() - start
            model.eval()
            with torch.no_grad():
                workload.evaluate(model)
            model.train()
            start = time.perf_counter()
    end = time.perf_counter()
    print(end - begin, training + end - start, flush=True)
"""


@contextmanager
def _bare_loop(steps: int) -> Iterator[Callable[[int], tuple[float, float]]]:
    """Calls give the seconds of a whole training run, and those of its training alone."""
    process = subprocess.Popen(
        [sys.executable, "-c", BARE_LOOP, str(steps)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **ONE_THREAD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    orders, answers = process.stdin, process.stdout
    assert orders is not None and answers is not None

    def run(seed: int) -> tuple[float, float]:
        orders.write(f"{seed}\n")
        orders.flush()
        whole, training = map(float, answers.readline().split())
        return whole, training

    try:
        yield run
    finally:
        process.kill()
        process.communicate()


def parallel(rounds: int = 6, seconds: float = 2.0) -> dict[str, Any]:
    """Calibrated step times in races of one and of two jobs, in turns, and beside a busy neighbour.

    All jobs have run trials before, so that their processes are there with model and data.  The clock is measured
    while no trial runs, so that they must not move it; the neighbour shows what running ones would do.
    """
    engines = {jobs: LocalEngine(jobs) for jobs in (1, 2)}
    try:
        for jobs, engine in engines.items():
            _run_trials(engine, jobs)
        windows = [{jobs: _steps(engine, seconds) for jobs, engine in engines.items()} for _ in range(rounds)]
        with _neighbour():
            busy = _steps(engines[1], seconds)
    finally:
        for engine in engines.values():
            engine.close()
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


@contextmanager
def _neighbour() -> Iterator[None]:
    """Another race's trial on the second processor."""
    code = (
        "from benchmarks.race_timing import WORKLOAD\n"
        "import torch\nfrom fallline.race.worker import pin\nfrom fallline.workloads import load\n"
        "pin(1)\nworkload = load(WORKLOAD)\nmodel = workload.new_model(0)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for step in range(10**9):\n"
        "    optimizer.zero_grad()\n"
        "    workload.training_loss(model, step % workload.max_steps, 0).backward()\n"
        "    optimizer.step()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent)
    time.sleep(4.0)
    try:
        yield
    finally:
        process.kill()
        process.wait()
