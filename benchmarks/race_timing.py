"""What a race's machinery costs, and whether trials side by side move the clock.  For a quiet machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fallline.race.contestants import named
from fallline.race.engine import LocalEngine
from fallline.race.plan import Entry
from fallline.race.preparing import measure_steps, workload_request
from fallline.race.results import Calibrated
from fallline.workloads import load

WORKLOAD = "chars"


def overhead(steps: int = 100, rounds: int = 9) -> dict[str, Any]:
    """A trial with evaluations and checkpoints against a bare loop of the same steps, side by side on one thread.

    Evaluation takes no time here: it is off the clock.
    """
    import torch

    from fallline.race.building import build
    from fallline.race.training import GO_ON, Assignment, train

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
        task = Assignment(
            trial=1,
            contestant=contestant,
            point=point,
            seed=0,
            max_steps=steps,
            stop_at_target=True,
            checkpoint=f"{folder}/1.pt",
        )
        events = train(workload, task)
        event = next(events)
        while event["event"] != "end":
            event = events.send(GO_ON)
        os.unlink(f"{folder}/1.pt")

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        bare()
        trial(folder)
        for number in range(rounds):
            arms = [bare, lambda: trial(folder)]
            seconds = {}
            for index in (0, 1) if number % 2 else (1, 0):
                start = time.perf_counter()
                arms[index]()
                seconds[index] = time.perf_counter() - start
            ratios.append(seconds[1] / seconds[0])
    share = statistics.median(ratios) - 1
    return {"share": share, "lowest": min(ratios) - 1, "highest": max(ratios) - 1, "ok": share <= 0.01}


def parallel(seconds: float = 8.0) -> dict[str, Any]:
    """Calibrated step times in a race of one job and in one of two, twice each, and beside a busy neighbour.

    The clock is measured while no trial runs, so that jobs must not move it; the neighbour shows what they would do.
    """
    one, two, again, busy = _steps(1, seconds), _steps(2, seconds), _steps(1, seconds), {}
    with _neighbour():
        busy = _steps(1, seconds)
    rows = {}
    for name in one:
        first, second, third = one[name], two[name], again[name]
        # The noise band: what the same measurement differs by, and what each knows of itself.
        own = max((c.high - c.low) / c.step_seconds for c in (first, second, third))
        band = max(own, abs(third.step_seconds / first.step_seconds - 1), 0.01)
        ratio = second.step_seconds / statistics.mean([first.step_seconds, third.step_seconds])
        rows[name] = {
            "ms with one job": 1e3 * first.step_seconds,
            "ms with two jobs": 1e3 * second.step_seconds,
            "ms with one job, again": 1e3 * third.step_seconds,
            "change": ratio - 1,
            "band": band,
            "ms beside a trial": 1e3 * busy[name].step_seconds,
            "ok": abs(ratio - 1) <= band,
        }
    return {"contestants": rows, "ok": all(row["ok"] for row in rows.values())}


def _steps(jobs: int, seconds: float) -> dict[str, Calibrated]:
    engine = LocalEngine(jobs)
    try:
        entry = Entry(WORKLOAD, load(WORKLOAD))
        request = workload_request(entry, entry.workload.target)
        contestants = [named("adamw"), named("schedule_free_adamw")]
        return measure_steps(engine, request, contestants, seconds=seconds).found
    finally:
        engine.close()


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
