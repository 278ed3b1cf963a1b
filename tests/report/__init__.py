"""Results files for reports: a scripted race, a grid of steps, AlgoPerf's logs."""

from __future__ import annotations

import contextlib
from pathlib import Path

from fallline.race.plan import Entry
from fallline.step.plan import Conditions, Plan, arms_of, expand, grid
from fallline.step.results import Results
from fallline.step.stored_plan import as_command
from fallline.workloads import load
from tests.race import write_workload
from tests.race.scripted import Killed, ScriptedEngine, log_normal
from tests.race.test_rounds import race
from tests.score import reach
from tests.step.records import record

FIELD = {"a": 0.0, "b": 0.03, "c": 0.3, "slow": 0.6}


def stored_race(folder: Path, name: str = "tiny", *, killed: bool = False) -> Path:
    """A race that has ended, or one that was killed; the same call without ``killed`` lets that one go on."""
    spec = str(write_workload(folder, name=name, max_steps=1000, eval_every=10, target=0.05))
    path, script = folder / f"race-{name}.sqlite", log_normal(FIELD)
    with contextlib.suppress(Killed):
        engine = ScriptedEngine(script, dies_after=600 if killed else None)
        race(Entry(spec, load(spec)), path, script, FIELD, engine)
    return path


def stored_steps(folder: Path) -> Path:
    arms = arms_of("adam", ("eager", "fused"), {"betas": (0.9, 0.99)}, "float32")
    rows = grid([1, 8], [1000, 200_000], arms)
    plan = Plan("own", tuple(expand(rows, Conditions(threads=(1,)), "adam")), ("a note",))
    path = folder / "step.sqlite"
    with Results(path) as results:
        results.begin(as_command(plan, ["step", "--tensors", "1,8"]))
        for cell in plan.cells:
            limit = 36.0 * cell.elements / 40e9
            results.put(record(cell, {"eager": 5 * limit, "fused": 1.2 * limit}))
    return path


def stored_logs(folder: Path) -> Path:
    for study in range(3):
        for workload, faster in (("wmt", 10.0), ("ogbg", 8.0)):
            reach(folder / "logs", "ours", study, workload, 1, faster + study)
            reach(folder / "logs", "theirs", study, workload, 1, 2 * faster + study)
    return folder / "logs"
