"""Workloads that give an iterable of batches, or a training function of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fallline.race.contestants import named
from fallline.race.engine.messages import Assignment, Evaluation, Notice
from fallline.race.engine.trial import run_trial
from fallline.training.optimizer_factory import build
from fallline.training.training import Training
from fallline.workloads import Workload, WorkloadError, load
from fallline.workloads.batches import InOrder
from tests.race import every

EXAMPLES = Path(__file__).parents[2] / "examples"
X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


def made(**source: Any) -> Workload:
    values: dict[str, Any] = {
        "name": "mine",
        "model": lambda seed: nn.Linear(3, 1),
        "evaluate": lambda model: nn.functional.mse_loss(model(X), Y).item(),
        "metric": "mse",
        "max_steps": 30,
        "eval_every": 6,
        "target": 1e-9,
    }
    if "train" not in source:
        values["loss"] = lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1])
    return Workload(**{**values, **source})


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True, **options)


def own_loop(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int) -> Tensor:
    for _ in steps:
        rows = torch.randint(len(X), (8,))
        loss = nn.functional.mse_loss(model(X[rows]), Y[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss


def one_batch_at_a_time(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, 40, 8):
        yield X[start : start + 8], Y[start : start + 8]


SOURCES = [
    pytest.param({"batches": loader()}, id="loader"),
    pytest.param({"batches": loader(generator=torch.Generator())}, id="loader with a generator"),
    pytest.param({"batches": lambda seed: loader()}, id="function to a loader"),
    pytest.param({"batches": one_batch_at_a_time}, id="generator function"),
    pytest.param({"batches": list(one_batch_at_a_time(0))}, id="list"),
    pytest.param({"train": own_loop}, id="own loop"),
]


def task(checkpoint: Path | None = None, recorded: int = 0, seed: int = 5) -> Assignment:
    contestant = named("adamw")
    path = None if checkpoint is None else str(checkpoint)
    return Assignment(1, contestant, contestant.one_setting(), seed, 30, True, path, recorded, save_every=0.0)


def values(found: list[Any]) -> dict[int, tuple[float | None, float | None]]:
    return {event.step: (event.value, event.loss) for event in found if isinstance(event, Evaluation)}


@pytest.mark.parametrize("source", SOURCES)
def test_trials_repeat_and_go_on_with_a_notice(source: dict[str, Any], tmp_path: Path) -> None:
    whole = every(run_trial(made(**source), task()))
    torch.manual_seed(99)
    assert values(every(run_trial(made(**source), task()))) == values(whole), "the seed decides"
    assert len(values(whole)) == 5 and not any(isinstance(event, Notice) for event in whole)
    first = every(run_trial(made(**source), task(tmp_path / "1.pt")), 2)
    rest = every(run_trial(made(**source), task(tmp_path / "1.pt", recorded=12)))
    assert {**values(first), **values(rest)} == values(whole) and min(values(rest)) == 18
    assert isinstance(rest[0], Notice) and rest[0].text.startswith("mine: a trial goes on at step 12; ")
    kept = "data that train() reads by itself begins anew" if "train" in source else "read again from their start"
    assert kept in rest[0].text


def test_the_order_of_a_loader_follows_from_the_seed() -> None:
    seeds = [values(every(run_trial(made(batches=loader()), task(seed=seed)))) for seed in (5, 6)]
    assert seeds[0] != seeds[1]


def test_a_loader_is_begun_again_in_another_order_where_it_ends() -> None:
    reader = InOrder(loader(), seed=1)
    epochs = [[reader.batch(step)[0] for step in range(start, start + 5)] for start in (0, 5)]
    both = [torch.cat(epoch) for epoch in epochs]
    assert not torch.equal(*both) and torch.equal(*(rows.sum(0).sort().values.round(decimals=4) for rows in both))


def test_a_function_makes_its_iterable_once_per_training_and_a_generator_once_per_epoch() -> None:
    calls: list[int] = []

    def counted(seed: int) -> list[int]:
        calls.append(seed)
        return [1, 2]

    reader = InOrder(counted, 7)
    assert [reader.batch(step) for step in range(5)] == [1, 2, 1, 2, 1] and calls == [7]

    def generated(seed: int) -> Iterator[int]:
        calls.append(seed)
        yield from (1, 2)

    reader = InOrder(generated, 8)
    assert [reader.batch(step) for step in range(5)] == [1, 2, 1, 2, 1] and calls == [7, 8, 8, 8]
    assert reader.batch(1) == 2, "an earlier step is read from the start"


def test_skipping_is_not_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in one_batch_at_a_time(seed):
            now[0] += 1.0
            yield batch

    def training() -> Training:
        return Training(
            made(batches=slow), 5, lambda model: build(named("adamw"), named("adamw").one_setting(), model, 30)
        )

    first = training()
    first.advance(12)
    second = training()
    second.restore(first.checkpoint())
    assert now[0] == 12 + 12
    second.advance(15)
    assert (first.clock.seconds["training"], second.clock.seconds["training"]) == (12.0, 15.0)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "give one of batch (step, seed → batch), batches (an iterable) and train, got none of them"),
        ({"batch": lambda step, seed: 0, "batches": []}, "got batch and batches"),
        ({"batches": 3}, "batches must be an iterable or a function of the seed, got 3"),
        ({"batches": iter([1])}, "got list_iterator, which is read once; give seed → an iterable"),
        ({"train": 3}, "train must be a function, got 3"),
        ({"train": own_loop, "loss": own_loop}, "loss is not called where train takes the steps"),
        ({"batches": [1], "loss": None}, "loss must be a function, got None"),
    ],
)
def test_misuse_is_refused_in_one_line(source: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)) as error:
        made(**source)
    assert "\n" not in str(error.value)


def raising(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int) -> None:
    raise KeyError("sorry")


def stepping(times: int) -> Any:
    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int) -> None:
        for _ in range(times):
            optimizer.step()

    return train


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"batches": []}, "mine: batches gave none; give at least one"),
        ({"batches": lambda seed: iter(())}, "mine: batches gave none; give at least one"),
        (
            {"train": stepping(0)},
            "mine: train(model, optimizer, steps, seed) called optimizer.step() 0 times for 6 steps",
        ),
        ({"train": stepping(1)}, "called optimizer.step() 1 time for 6 steps; call it once for each of them"),
        ({"train": stepping(7)}, "called optimizer.step() more than 6 times for 6 steps"),
        ({"train": raising}, "mine: train(model, optimizer, range(0, 6), 5) raised KeyError: 'sorry'"),
        (
            {"train": lambda model, optimizer, steps, seed: "text"},
            "returned 'text'; return the last loss as one number",
        ),
    ],
)
def test_an_error_while_training_is_named_in_one_line(source: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=re.escape(said)) as error:
        every(run_trial(made(**source), task()))
    assert said in str(error.value).splitlines()[0]


def test_a_function_of_ones_own_gets_the_rate_of_every_step() -> None:
    rates: list[float] = []

    def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int) -> None:
        for _ in steps:
            optimizer.step()
            rates.append(optimizer.param_groups[0]["lr"])

    recipe, point = named("adamw"), {"lr": 1.0, "warmup_factor": 0.5}
    training = Training(made(train=train), 0, lambda model: build(recipe, point, model, 8))
    training.advance(3)
    training.advance(4)
    assert rates == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("name", ["dataloader", "own_loop"])
@pytest.mark.parametrize("contestant", ["adamw", "schedule_free_adamw"])
def test_the_examples_train(name: str, contestant: str) -> None:
    workload = load(str(EXAMPLES / f"{name}.py"))
    made = named(contestant)
    short = Assignment(1, made, made.one_setting(), 0, 300, False, None)
    found = every(run_trial(workload.replace(max_steps=300, eval_every=100), short))
    losses = [event.value for event in found if isinstance(event, Evaluation)]
    assert len(losses) == 3 and losses[0] is not None and losses[-1] is not None and losses[-1] < 0.8 * losses[0]
