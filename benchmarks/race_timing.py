"""What a race's machinery costs, and whether trials side by side move the clock.  For a quiet machine."""

from __future__ import annotations

import itertools
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
from fallline.race.plan import SELF, STEPS_CLOCK, Entry, Rules
from fallline.race.preparing import measure_steps, workload_request
from fallline.race.results import Results
from fallline.race.run import Progress, Race
from fallline.workloads import load

WORKLOAD = "chars"


def overhead(steps: int = 350, studies: int = 4) -> dict[str, Any]:
    """What a trial takes beside training and evaluation, over its training.

    That is all a bare loop does not do: checkpoints, the pipe to the race, the results file, decisions; and building
    the model, which it does too.  Both sides come from the same trials, so that a noisy machine cancels out.
    """
    entry = Entry(WORKLOAD, load(WORKLOAD).replace(target=-1.0, max_steps=steps), {"target": -1.0, "max_steps": steps})
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Results(Path(folder) / "r.sqlite") as results:
        engine = LocalEngine(1)
        try:
            progress = Progress(trial_ended=lambda row, status: ends.append(time.perf_counter()))
            rules = Rules(ruleset=SELF, self_factor=1.0, studies=studies, clock=STEPS_CLOCK)
            Race([entry], [named("adamw")], rules, results, engine, progress).run()
        finally:
            engine.close()
        rows = results.rows()
    shares = []
    for (before, after), row in zip(itertools.pairwise(ends), rows[1:], strict=True):
        assert row.training_seconds is not None and row.evaluation_seconds is not None
        shares.append((after - before - row.training_seconds - row.evaluation_seconds) / row.training_seconds)
    share = statistics.median(shares)
    return {
        "share": share,
        "lowest": min(shares),
        "highest": max(shares),
        "evaluations a trial": steps // (entry.workload.eval_every or 1),
        "seconds of training a trial": statistics.median(row.training_seconds or 0.0 for row in rows),
        "ok": share <= 0.01,
    }


def parallel(rounds: int = 6, seconds: float = 2.0) -> dict[str, Any]:
    """Calibrated step times in races of one and of two jobs, in turns, and beside a busy neighbour.

    The clock is measured while no trial runs, so that jobs must not move it; the neighbour shows what they would do.
    """
    engines = {jobs: LocalEngine(jobs) for jobs in (1, 2)}
    try:
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
