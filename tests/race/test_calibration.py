"""The cost of a step that returns before its work is done."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fallline.measure.clock import nothing_to_wait_for
from fallline.measure.thread_time import usage
from fallline.race.clock import calibration
from fallline.race.clock.calibration import calibrate, quick_step_time
from fallline.race.contestants import Contestant, named
from fallline.workloads import Workload, load
from tests.race import write_workload


def arm(name: str) -> tuple[Contestant, dict[str, Any]]:
    contestant = named(name)
    (point,) = contestant.trial_points(trials=1, study=0, seed=1, tuned=False)
    return contestant, point


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return load(str(write_workload(tmp_path)))


@pytest.fixture
def busy(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> Workload:
    """On a stand-in for an accelerator: a step asks for 2 s of work and returns; reading the clock takes 0.5 s."""
    now, pending = [0.0], [0.0]

    def wait() -> None:
        now[0], pending[0] = now[0] + pending[0], 0.0

    def loss(model: Any, batch: Any) -> Any:
        pending[0] += 2.0
        return workload.loss(model, batch)

    def clock() -> float:
        now[0] += 0.5
        return now[0]

    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr(calibration, "wait_for_model", lambda model: wait)
    return workload.replace(loss=loss)


def test_a_calibrated_step_lasts_until_the_device_has_done_its_work(busy: Workload) -> None:
    calibration = calibrate(busy, [arm("adamw"), arm("schedule_free_adamw")], seconds=1.0)
    found = calibration.found
    assert calibration.session.obstacle == "an accelerator does the work" and calibration.session.clock == "wall"
    assert [values.step_seconds for values in found.values()] == pytest.approx([2.5, 2.5])
    assert found["schedule_free_adamw"].switch_seconds == 0.5, "it asks for no work here"


def test_a_quick_look_waits_for_the_device_too(busy: Workload) -> None:
    assert quick_step_time(busy, *arm("adamw"))[0] == 2.5


def test_on_a_cpu_nothing_is_waited_for(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def interleave(arms: Any, enough: Any, *, wait: Any, **options: Any) -> Any:
        waits.append(wait)
        return real(arms, enough, wait=wait, **options)

    real = calibration.interleave
    monkeypatch.setattr(calibration, "interleave", interleave)
    calibrate(workload, [arm("adamw")], seconds=0.0)
    assert waits == [nothing_to_wait_for]


def test_every_round_is_stored_with_wall_and_cpu_time_whatever_the_order_of_building(workload: Workload) -> None:
    names = ["adamw", "schedule_free_adamw", "lion"]
    measured = calibrate(workload, [arm(name) for name in names], seconds=0.0)
    session = measured.session
    assert list(measured.found) == list(session.steps) == names and list(session.switches) == ["schedule_free_adamw"]
    rounds = [*session.steps.values(), *session.switches.values()]
    assert {len(found.wall) for found in rounds} == {len(found.cpu) for found in rounds} == {6}
    assert all(cpu > 0.0 for found in session.steps.values() for cpu in found.cpu)
    assert measured.found["lion"].step_seconds == session.typical()["lion"]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in a worker."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.skipif(usage() is None, reason="the system does not count waits")
def test_a_step_that_waits_for_another_process_is_timed_by_the_wall(workload: Workload) -> None:
    arms = [arm("adamw"), arm("lion")]
    assert calibrate(workload, arms, seconds=0.0).session.obstacle is None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as loader:
        assert loader.stdin is not None and loader.stdout is not None
        asked, answer = loader.stdin, loader.stdout

        def batch(step: int, seed: int) -> Any:
            asked.write(b"?")
            answer.read(1)
            assert workload.batch is not None
            return workload.batch(step, seed)

        session = calibrate(workload.replace(batch=batch), arms, seconds=0.0).session
    assert session.obstacle is not None and session.clock == "wall"
