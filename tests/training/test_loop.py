"""The one loop: its phases, its rates, and several of them side by side."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fallline
from fallline.training.device import device_of, mover
from fallline.training.loop import Loop
from fallline.training.phases import BACKWARD, DATA, EVALUATION, FORWARD, STEP, STEP_PHASES, TRAINING, PhaseClock
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads import Workload, minibatch

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = X @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]])


def regression(**changes: Any) -> Workload:
    values: dict[str, Any] = {
        "name": "regression",
        "model": lambda seed: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1)),
        "batch": lambda step, seed: minibatch(step, seed, 64, 16),
        "loss": lambda model, rows: nn.functional.mse_loss(model(X[rows]), Y[rows]),
        "evaluate": lambda model: nn.functional.mse_loss(model(X), Y).item(),
        "metric": "mse",
        "max_steps": 40,
    }
    return Workload(**{**values, **changes})


def adamw(model: nn.Module) -> ScheduledOptimizer:
    optimizer = fallline.create("adamw", model, lr=0.01)
    return ScheduledOptimizer.around(optimizer, lambda step, peak: peak / (1 + step))


def weights(training: Training) -> list[Tensor]:
    return [p.detach().clone() for p in training.model.parameters()]


class Timed:
    """A task on a clock of its own: a batch takes 1 s, a loss 10, its gradient 100, a step 1,000."""

    def __init__(self) -> None:
        self.now = self.pending = 0.0
        self.weight = nn.Parameter(torch.ones(1))
        self.steps: list[int] = []

    def wait(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0

    def batch(self, step: int) -> float:
        self.steps.append(step)
        self.pending += 1.0
        return 2.0

    def loss(self, model: nn.Module, batch: float, step: int) -> Tensor:
        self.pending += 10.0
        self.weight.register_hook(lambda grad: self.spend(100.0)) if step == 0 else None
        return (batch * self.weight).sum()

    def spend(self, seconds: float) -> None:
        self.pending += seconds

    def optimizer(self) -> ScheduledOptimizer:
        made = torch.optim.SGD([self.weight], lr=0.1)
        made.register_step_pre_hook(lambda *_: self.spend(1000.0))
        return ScheduledOptimizer(made)


def test_each_second_is_counted_in_the_phase_that_asked_for_it() -> None:
    task = Timed()
    clock = PhaseClock(task.wait, lambda: task.now)
    loop = Loop(task, nn.Identity(), task.optimizer(), clock)
    loop.step()
    assert clock.take() == {DATA: 1.0, FORWARD: 10.0, BACKWARD: 100.0, STEP: 1000.0}
    task.spend(1e6)  # another arm's, between two steps of this one
    loop.step()
    assert clock.take() == {DATA: 1.0, FORWARD: 10.0, BACKWARD: 100.0, STEP: 1000.0}
    assert task.steps == [0, 1] and loop.done == 2


def test_who_does_not_ask_for_phases_never_waits_for_the_device() -> None:
    task = Timed()
    Loop(task, nn.Identity(), task.optimizer()).step()
    assert (task.now, task.pending) == (0.0, 1111.0)


def test_loops_interleaved_step_by_step_train_as_each_does_alone() -> None:
    alone = []
    for seed in range(3):
        training = Training(regression(), seed, adamw)
        training.advance(20)
        alone.append(weights(training))
    phases = [PhaseClock() for _ in range(3)]
    together = [Training(regression(), seed, adamw, phases[seed]) for seed in range(3)]
    order = random.Random(0)
    for _ in range(20):
        for training in order.sample(together, 3):
            training.loop.step()
    for found, clock, expected in zip(together, phases, alone, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(weights(found), expected, strict=True))
        assert set(clock.seconds) == set(STEP_PHASES) and all(seconds > 0 for seconds in clock.seconds.values())


def test_rates_follow_the_schedule_from_the_first_step() -> None:
    training = Training(regression(), 0, adamw)
    rates = []
    for _ in range(3):
        training.loop.step()
        rates.append(training.optimizer.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.01, 0.005, 0.01 / 3])


def test_a_training_that_goes_on_is_the_one_that_was_never_stopped() -> None:
    whole = Training(regression(), 3, adamw)
    whole.advance(20)
    first = Training(regression(), 3, adamw)
    first.advance(7)
    first.evaluate()
    saved = first.checkpoint()
    second = Training(regression(), 3, adamw)
    second.restore(saved)
    assert second.done == 7 and second.clock.seconds == {
        TRAINING: saved["training"],
        EVALUATION: saved["evaluation"],
    }
    second.advance(20)
    assert all(torch.equal(a, b) for a, b in zip(weights(second), weights(whole), strict=True))


def test_gradients_are_let_go_after_each_step() -> None:
    training = Training(regression(), 0, adamw)
    training.advance(3)
    assert all(p.grad is None for p in training.model.parameters())


def test_batches_are_moved_to_a_device_that_is_not_the_cpu() -> None:
    assert mover(torch.device("cpu")) is None, "nothing to do, and nothing done"
    assert device_of(nn.Identity()) == torch.device("cpu")
    move = mover(torch.device("meta"))
    assert move is not None
    x, (y, name) = move((torch.ones(2), [torch.zeros(3), "name"]))
    assert (x.device.type, y.device.type, name) == ("meta", "meta", "name")
