"""One trial: it goes on from any checkpoint with the same curve, and every way to end is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fallline.measure.clock import nothing_to_wait_for
from fallline.race.contestants import named
from fallline.race.engine import trial
from fallline.race.engine.messages import (
    CENSORED,
    DIVERGED,
    ENDED,
    GO_ON,
    OVER_BUDGET,
    REACHED,
    STOP,
    Assignment,
    End,
    Evaluation,
    Event,
)
from fallline.race.engine.trial import is_finite, run_trial
from fallline.training import device
from fallline.training.training import Training
from fallline.workloads import Workload, load
from tests.race import every, write_workload


def task(contestant: str, checkpoint: Path | None = None, **changes: Any) -> Assignment:
    made = named(contestant)
    point = made.trial_points(trials=1, study=0, seed=1, tuned=False)[0]
    values: dict[str, Any] = {
        "trial": 1,
        "contestant": made,
        "point": point,
        "seed": 5,
        "max_steps": 60,
        "stop_at_target": True,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "save_every": 0.0,
    }
    return Assignment(**{**values, **changes})


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return load(str(write_workload(tmp_path, target=1e-9)))


def events(workload: Workload, task: Assignment, stop_after: int | None = None) -> list[Any]:
    """All of them; with ``stop_after`` as if the process were killed after so many."""
    return every(run_trial(workload, task), stop_after)


def curve(found: list[Event]) -> dict[int, float | None]:
    return {event.step: event.value for event in found if isinstance(event, Evaluation)}


def end(found: list[Event]) -> End:
    assert isinstance(found[-1], End)
    return found[-1]


@pytest.mark.parametrize(
    "contestant",
    [
        "adamw",
        "lion",
        "schedule_free_adamw",
        "algoperf_lawa_queue",
        "algoperf_lawa_ema",
        "algoperf_amos",
        "prodigy",
        "adamw8bit",
    ],
)
@pytest.mark.parametrize("killed_after", [1, 4])
def test_a_trial_goes_on_from_its_checkpoint_with_the_same_curve(
    workload: Workload, tmp_path: Path, contestant: str, killed_after: int
) -> None:
    whole = events(workload, task(contestant))
    path = tmp_path / "1.pt"
    first = events(workload, task(contestant, path), stop_after=killed_after)
    assert torch.load(path, weights_only=True)["step"] == 10 * killed_after
    rest = events(workload, task(contestant, path, recorded=10 * killed_after))
    assert min(curve(rest)) == 10 * (killed_after + 1), "it did not begin anew"
    assert {**curve(first), **curve(rest)} == curve(whole)
    assert rest[-1].training > first[-1].training


def test_an_evaluation_that_was_saved_and_not_recorded_is_given_again(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "1.pt"
    first = events(workload, task("adamw", path), stop_after=1)
    again = events(workload, task("adamw", path, recorded=0))
    assert again[0].step == 10 and again[0].value == first[0].value
    assert sorted(curve(again)) == [10, 20, 30, 40, 50, 60]


def test_a_checkpoint_that_is_further_than_the_rows_means_beginning_anew(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "1.pt"
    events(workload, task("adamw", path), stop_after=3)
    assert min(curve(events(workload, task("adamw", path, recorded=10)))) == 10, "the row of step 20 is missing"


@pytest.mark.parametrize("change", [{"seed": 6}, {"max_steps": 50}, {"contestant": "lion"}, {"point": {"lr": 0.02}}])
def test_the_checkpoint_of_another_trial_means_beginning_anew(
    workload: Workload, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "1.pt"
    other = {key: value for key, value in change.items() if key != "contestant"}
    events(workload, task(change.get("contestant", "adamw"), path, **other), stop_after=1)
    assert curve(events(workload, task("adamw", path, recorded=10))) == curve(events(workload, task("adamw")))


def test_a_damaged_checkpoint_means_beginning_anew(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "1.pt"
    path.write_bytes(b"cut off")
    assert curve(events(workload, task("adamw", path))) == curve(events(workload, task("adamw")))


@pytest.mark.parametrize(
    ("seconds", "saved"),
    [
        (None, {30, 60}),  # 30 s apart: an evaluation takes 12 s here, saving none
        (24.0, {20, 40, 60}),
        (25.0, {30, 60}),
        (0.0, {10, 20, 30, 40, 50, 60}),
    ],
)
def test_checkpoints_come_as_often_as_asked_for(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, saved: set[int]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def evaluate(model: Any) -> float:
        now[0] += 12.0
        return math.pi

    path = tmp_path / "1.pt"
    seen = set()
    run = run_trial(workload.replace(evaluate=evaluate), task("adamw", path, save_every=seconds))
    event = next(run)
    while isinstance(event, Evaluation):
        if path.exists():
            seen.add(torch.load(path, weights_only=True)["step"])
            assert max(seen) <= event.step
        event = run.send(GO_ON)
    assert seen == saved


def test_checkpoints_that_take_long_come_rarely_unless_asked_for(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, count = [0.0], [0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    real = torch.save

    def save(*arguments: Any) -> None:
        now[0] += 0.5
        count[0] += 1
        real(*arguments)

    def evaluate(model: Any) -> float:
        now[0] += 120.0
        return math.pi

    monkeypatch.setattr(torch, "save", save)
    slow = workload.replace(evaluate=evaluate)
    events(slow, task("adamw", tmp_path / "1.pt", save_every=None))
    assert count[0] == 2, "the first, and one 500 s later"
    events(slow, task("adamw", tmp_path / "2.pt", save_every=1.0))
    assert count[0] == 2 + 6


def test_it_ends_at_the_target_over_budget_or_when_told(workload: Workload) -> None:
    assert end(events(workload, task("adamw"))).status == OVER_BUDGET
    easy = workload.replace(target=1e9)
    reached = end(events(easy, task("adamw")))
    assert (reached.status, reached.step) == (REACHED, 10)
    run = run_trial(workload, task("adamw"))
    next(run)
    assert end([run.send(STOP)]).status == CENSORED


def test_with_an_equal_budget_it_goes_on_past_the_target_and_evaluates_at_its_end(workload: Workload) -> None:
    found = events(workload.replace(target=1e9), task("adamw", stop_at_target=False, max_steps=33))
    assert sorted(curve(found)) == [10, 20, 30, 33]
    assert end(found).status == ENDED


def test_divergence_ends_a_trial(workload: Workload) -> None:
    found = events(workload, task("sgd", point={"lr": 1e30, "momentum": 0.9}))
    assert end(found).status == DIVERGED
    assert end(found).step == 10
    assert found[0].value is None


def test_weights_whose_sum_overflows_are_no_divergence() -> None:
    model = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(model.weight, 3e38)
    assert is_finite(model)
    with torch.no_grad():
        model.bias[1] = math.nan
    assert not is_finite(model)


def test_a_metric_of_nan_meets_no_target_and_the_trial_goes_on(tmp_path: Path) -> None:
    path = write_workload(tmp_path, name="nan", in_evaluate="    return float('nan')\n")
    found = events(load(str(path)), task("adamw"))
    assert end(found).status == OVER_BUDGET
    assert all(event.value is None for event in found[:-1]) and len(found) == 7


def test_modes_are_switched_and_on_the_clock_and_evaluation_is_off_it(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, seen = [0.0], []
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def spend(seconds: float, then: Any = None) -> Any:
        def call(*arguments: Any) -> Any:
            now[0] += seconds
            return None if then is None else then(*arguments)

        return call

    def build(*arguments: Any) -> Any:
        built = real_build(*arguments)
        optimizer: Any = built.optimizer
        for name, seconds in (("step", 1.0), ("eval", 10.0), ("train", 100.0)):
            setattr(optimizer, name, spend(seconds, getattr(optimizer, name)))
        return built

    def evaluate(model: Any) -> float:
        seen.append((model.training, model[0].weight.detach().clone()))
        now[0] += 1000.0
        return math.pi

    real_build = trial.build
    monkeypatch.setattr(trial, "build", build)
    task_ = task("schedule_free_adamw", max_steps=20)
    run, weights = run_trial(workload.replace(evaluate=evaluate), task_), []
    first: Any = next(run)
    training: Training = run.gi_frame.f_locals["training"]
    weights.append(training.model.get_parameter("0.weight").detach().clone())
    second: Any = run.send(GO_ON)
    assert [mode for mode, _ in seen] == [False, False], "the model is in eval mode"
    assert not torch.equal(seen[0][1], weights[0]), "evaluation has the averaged weights, training has its own again"
    assert (first.training, first.evaluation) == (10 + 10 + 100, 1000)
    assert (second.training, second.evaluation) == (2 * 120, 2 * 1000)


# ------------------------------------------------------------------ a device that works on while Python goes on


class Device:
    """A stand-in for an accelerator: work is asked for at once and done when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.pending = 0.0
        self.asked_for: list[str] = []
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def work(self, seconds: float) -> None:
        self.pending += seconds

    def wait(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0

    def wait_for(self, name: str) -> Any:
        self.asked_for.append(name)
        return self.wait


def test_work_on_a_device_is_counted_where_it_was_asked_for(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = Device(monkeypatch)
    monkeypatch.setattr(device, "wait_for", stand_in.wait_for)

    def model(seed: int) -> torch.nn.Module:
        stand_in.work(10_000.0)
        return workload.model(seed)

    def loss(model: Any, batch: Any) -> Any:
        stand_in.work(1.0)
        return workload.loss(model, batch)

    def evaluate(model: Any) -> float:
        stand_in.work(100.0)
        return math.pi

    found = events(workload.replace(model=model, loss=loss, evaluate=evaluate), task("adamw", max_steps=20))
    assert stand_in.asked_for == ["cpu"], "the name of the device that the model is on"
    assert [event.training for event in found] == [10.0, 20.0, 20.0]
    assert [event.evaluation for event in found] == [100.0, 200.0, 200.0]


def test_a_model_on_the_cpu_waits_for_nothing() -> None:
    assert device.wait_for_model(torch.nn.Linear(1, 1)) is nothing_to_wait_for
    assert device.wait_for_model(torch.nn.Identity()) is nothing_to_wait_for
