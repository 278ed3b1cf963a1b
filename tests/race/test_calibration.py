"""What a step costs, where a step returns before its work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fallline.measure.clock import nothing_to_wait_for
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
    found = calibrate(busy, [arm("adamw"), arm("schedule_free_adamw")], seconds=1.0).found
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
