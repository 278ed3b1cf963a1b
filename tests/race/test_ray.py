"""Trials on Ray, where it is installed: the same results as in local processes, also with a worker killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fallline.race.contestants import named
from fallline.race.engine import Engine, LocalEngine
from fallline.race.engine.messages import Check, End, WorkloadRequest, decode_event, encode
from fallline.race.plan import Entry, Rules
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.workloads import load
from tests.race import write_workload

pytest.importorskip("ray")

RULES = Rules(trials=2, studies=1, clock="steps", early_stop=False)
LETHAL = """    from pathlib import Path
    marker = Path(__file__).with_name("killed")
    count = int(marker.read_text()) + 1 if marker.exists() else 1
    marker.write_text(str(count))
    if count == 4 and Path(__file__).with_name("lethal").exists():
        import os
        os.kill(os.getpid(), 9)
"""


def run(engine: Engine, workload: Path, results: Path) -> tuple[list[object], list[object], int]:
    try:
        with Results(results) as store:
            Race([Entry(str(workload), load(str(workload)))], [named("adamw")], RULES, store, engine).run()
            rows = store.rows()
            curves = [[(step, value) for step, value, _ in store.evaluations(row.id)] for row in rows]
    finally:
        engine.close()
    ends: list[object] = [
        (row.contestant, row.study, row.number, row.status, row.steps, row.steps_to_target) for row in rows
    ]
    return ends, list(curves), sum(row.attempts for row in rows)


def test_ray_gives_the_same_results_although_a_worker_is_killed(tmp_path: Path) -> None:
    from fallline.race.engine.ray_cluster import RayEngine

    workload = write_workload(tmp_path, target=0.5, in_evaluate=LETHAL)
    local, curves, attempts = run(LocalEngine(1), workload, tmp_path / "local.sqlite")
    assert attempts == 2
    (tmp_path / "killed").unlink()
    (tmp_path / "lethal").touch()
    on_ray, same, attempts = run(RayEngine(1, None), workload, tmp_path / "ray.sqlite")
    assert (on_ray, same) == (local, curves)
    assert attempts == 3, "the lost worker's trial was tried again"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:port"])
def test_a_cluster_that_is_not_there_is_told_at_once(address: str) -> None:
    from fallline.race.engine.ray_cluster import RayEngine, RayUnavailable

    with pytest.raises(RayUnavailable, match=f"no cluster at {address}"):
        RayEngine(1, address)


def test_a_machine_without_the_workloads_file_says_that_it_must_have_it(tmp_path: Path, one_thread: None) -> None:
    from fallline.race.engine.ray_cluster import Runner

    path = tmp_path / "elsewhere.py"
    event = decode_event(Runner(0).begin(encode(Check(WorkloadRequest(f"{path}:small"), seed=0))))
    assert isinstance(event, End) and event.note is not None
    assert event.note.startswith(f"{path}: there is no such file on ")
    assert "every machine needs it under the same path" in event.note and "\n" not in event.note
