"""The class itself: what it checks, and how values compare."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fallline
from fallline.workloads import WorkloadError, minibatch
from fallline.workloads.workload import Workload


def linear(**changes: Any) -> Workload:
    fields: dict[str, Any] = {
        "name": "linear",
        "model": lambda seed: nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
        "batch": lambda step, seed: torch.ones(4, 2),
        "loss": lambda model, x: model(x).square().mean(),
        "evaluate": lambda model: model(torch.ones(1, 2)).item(),
        "metric": "loss",
        "max_steps": 60,
    }
    return Workload(**{**fields, **changes})


def test_it_is_exported() -> None:
    assert fallline.Workload is Workload


def test_thirty_evaluations_by_default() -> None:
    assert list(linear().evaluation_steps()) == list(range(2, 61, 2))
    assert list(linear(max_steps=7, eval_every=3).evaluation_steps()) == [3, 6]


def test_dropout_is_drawn_from_seed_and_step() -> None:
    workload = linear()
    model = workload.new_model(0)
    first, again, other_step, other_seed = (
        workload.training_loss(model, step, seed).item() for step, seed in ((1, 0), (1, 0), (2, 0), (1, 5))
    )
    assert first == again
    assert first != other_step and first != other_seed


def test_evaluation_is_without_dropout_and_gradients() -> None:
    seen = []

    def evaluate(model: nn.Module) -> float:
        seen.append((model.training, torch.is_grad_enabled()))
        return 1.0

    workload = linear(evaluate=evaluate)
    model = workload.new_model(0)
    assert workload.validate(model) == 1.0
    assert seen == [(False, False)] and model.training


def test_training_mode_returns_when_the_evaluation_raises() -> None:
    workload = linear(evaluate=lambda model: 1 / 0)
    model = workload.new_model(0)
    with pytest.raises(WorkloadError, match="evaluate"):
        workload.validate(model)
    assert model.training


@pytest.mark.parametrize(
    ("direction", "value", "reached"),
    [
        ("lower", 0.4, True),
        ("lower", 0.5, True),
        ("lower", 0.6, False),
        ("higher", 0.4, False),
        ("higher", 0.5, True),
        ("higher", 0.6, True),
        ("lower", math.nan, False),
        ("higher", math.nan, False),
        ("lower", -math.inf, True),
    ],
)
def test_targets(direction: str, value: float, reached: bool) -> None:
    assert linear(direction=direction, target=0.5).reached(value) is reached


def test_without_a_target_none_is_reached() -> None:
    assert not linear().reached(-math.inf)
    assert linear().replace(target=1.0).reached(0.5)


def test_better() -> None:
    lower, higher = linear(), linear(direction="higher")
    assert lower.is_better(1, 2) and not lower.is_better(2, 1) and not lower.is_better(1, 1)
    assert higher.is_better(2, 1) and not higher.is_better(1, 2)
    assert (
        lower.is_better(1e9, math.nan) and not lower.is_better(math.nan, 1) and not lower.is_better(math.nan, math.nan)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"direction": "up"}, 'direction must be "lower" or "higher", got \'up\''),
        ({"max_steps": 0}, "max_steps must be a whole number >= 1, got 0"),
        ({"max_steps": 10.5}, "max_steps must be a whole number >= 1, got 10.5"),
        ({"eval_every": 0}, "eval_every must be a whole number >= 1, got 0"),
        ({"max_steps": None}, "max_steps must be a whole number >= 1, got None"),
        ({"target": math.nan}, "target must be a finite number or None, got nan"),
        ({"target": "0.5"}, "target must be a finite number or None, got '0.5'"),
        ({"target": torch.ones(2)}, "target must be a finite number or None, got tensor([1., 1.])"),
    ],
)
def test_wrong_fields_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as raised:
        linear(**changes)
    assert str(raised.value) == said


@pytest.mark.parametrize("target", [np.float32(0.5), torch.tensor(0.5), np.array([0.5]), 0.5])
def test_a_target_is_a_float_whatever_number_it_was(target: Any) -> None:
    assert type(linear(target=target).target) is float and linear(target=target).target == 0.5


@pytest.mark.parametrize("field", ["name", "metric", "data_name"])
def test_names_must_be_text(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} must be text, got 5"):
        linear(**{field: 5})


def test_functions_must_be_functions() -> None:
    with pytest.raises(TypeError, match="model must be a function, got 3"):
        linear(model=3)


def run_once(workload: Workload) -> None:
    model = workload.new_model(3)
    workload.training_loss(model, 7, 3).backward()
    workload.validate(model)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": lambda seed: None}, "model(3) returned None; return a torch.nn.Module"),
        ({"model": lambda seed: nn.Flatten}, "model(3) returned the class Flatten; call the class"),
        (
            {"model": lambda seed: [nn.Linear(2, 1)]},
            "model(3) returned a value of type list; return a torch.nn.Module",
        ),
        (
            {"loss": lambda model, x: model(x).mean().item() * 0 + 0.5},
            "loss(model, batch) returned 0.5; return the loss as a tensor, without .item()",
        ),
        (
            {"loss": lambda model, x: None},
            "loss(model, batch) returned None; return the loss as a tensor, without .item()",
        ),
        (
            {"loss": lambda model, x: model(x).square()},
            "loss(model, batch) returned a tensor of shape (4, 1); return one number, for instance its .mean()",
        ),
        (
            {"loss": lambda model, x: model(x).mean().detach()},
            "loss(model, batch) returned a tensor of shape () without a gradient; compute it from the model's "
            "parameters, without .detach() or no_grad",
        ),
        ({"evaluate": lambda model: None}, "evaluate(model) returned None; return the loss as one number"),
        ({"evaluate": lambda model: "0.5"}, "evaluate(model) returned '0.5'; return the loss as one number"),
        (
            {"evaluate": lambda model: model(torch.ones(3, 2))},
            "evaluate(model) returned a tensor of shape (3, 1); return the loss as one number",
        ),
        (
            {"evaluate": lambda model: {"loss": 1.0}},
            "evaluate(model) returned a value of type dict; return the loss as one number",
        ),
    ],
)
def test_what_a_function_returns_is_named_with_the_remedy(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError) as error:
        run_once(linear(**changes))
    assert str(error.value) == f"linear: {said}"


@pytest.mark.parametrize("call", ["model(3)", "batch(7, 3)", "loss(model, batch)", "evaluate(model)"])
def test_what_a_function_raises_says_which_and_where(call: str) -> None:
    def mistaken(*arguments: Any) -> Any:
        raise IndexError("beyond the end\nof the data")

    with pytest.raises(WorkloadError) as error:
        run_once(linear(**{call.partition("(")[0]: mistaken}))
    first, *traceback = str(error.value).splitlines()
    assert first == f"linear: {call} raised IndexError: beyond the end"
    assert any(__file__ in line for line in traceback) and not any("fallline/workloads" in line for line in traceback)
    assert isinstance(error.value.__cause__, IndexError)


def test_want_of_memory_is_no_mistake_of_the_workload() -> None:
    def hungry(model: nn.Module) -> float:
        raise MemoryError

    with pytest.raises(MemoryError):
        run_once(linear(evaluate=hungry))


@pytest.mark.parametrize(
    "value", [0.5, torch.tensor(0.5), torch.tensor([[0.5]]), np.float32(0.5), np.array([0.5]), torch.tensor(0.5).half()]
)
def test_metrics_may_be_tensors_and_arrays_of_one_number(value: Any) -> None:
    workload = linear(evaluate=lambda model: value)
    found = workload.validate(workload.new_model(0))
    assert type(found) is float and found == 0.5


class TestMinibatch:
    def test_an_epoch_has_every_example_once(self) -> None:
        epoch = torch.cat([minibatch(step, 0, size=12, batch_size=4) for step in range(3)])
        assert sorted(epoch.tolist()) == list(range(12))

    def test_epochs_and_seeds_have_orders_of_their_own(self) -> None:
        orders = {
            tuple(minibatch(step, seed, size=50, batch_size=50).tolist()) for step in range(3) for seed in range(3)
        }
        assert len(orders) == 9

    def test_incomplete_batches_are_dropped(self) -> None:
        assert len(minibatch(3, 0, size=10, batch_size=4)) == 4

    @pytest.mark.parametrize("batch_size", [0, 11])
    def test_impossible_sizes_are_refused(self, batch_size: int) -> None:
        with pytest.raises(ValueError, match="batch_size must be in 1 … 10"):
            minibatch(0, 0, size=10, batch_size=batch_size)
