"""Code to paste makes what a trial was trained with: run here, for every kind of schedule and average."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fallline.race.contestants import Contestant, named
from fallline.training.optimizer_factory import build
from fallline.training.snippet import code_of, settings_text

STEPS = 40
EVERY = [
    named("adan"),
    named("sgd"),
    named("schedule_free_adamw"),
    named("algoperf_lawa_ema"),
    named("algoperf_lawa_queue"),
    named("algoperf_amos"),
    named("algoperf_cyclic_lr"),
    Contestant("stable", "adamw", {"lr": 1e-2, "decay_fraction": 0.3}, schedule="warmup_stable_decay"),
    Contestant("nested", "lion", {"lr": 1e-3, "warmup_factor": 0.1}, schedule="nested_restarts"),
    Contestant("ema", "adamw", {"average_decay": 0.9}, schedule="constant", averaging="weight_ema"),
]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))


def train(net: nn.Module, optimizer: Any, before: Any, after: Any) -> list[torch.Tensor]:
    inputs = torch.linspace(-1, 1, 32).reshape(8, 4)
    for step in range(12):
        before(step)
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()
        after()
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return [p.detach().clone() for p in net.parameters()]


@pytest.mark.parametrize("contestant", EVERY, ids=lambda contestant: contestant.name)
def test_pasted_code_trains_as_the_trial_did(contestant: Contestant) -> None:
    point = contestant.one_setting()
    net = model()
    code = code_of(contestant, point, STEPS)
    assert code is not None
    names: dict[str, Any] = {"model": net}
    exec(code, names)
    schedule = names.get("schedule")
    pasted = train(net, names["optimizer"], lambda step: None, schedule.step if schedule else lambda: None)
    other = model()
    built = build(contestant, point, other, STEPS)
    trained = train(other, built.optimizer, built.set_rates, lambda: None)
    for one, two in zip(pasted, trained, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def test_a_class_from_a_users_file_is_not_run_for_it() -> None:
    own = Contestant("mine", "/no/such.py:Mine", {"lr": 0.1}, schedule="constant")
    assert code_of(own, {"lr": 0.1}, STEPS) is None and settings_text(own, {"lr": 0.1}) == "lr 0.1, constant"


def test_settings_are_told_as_the_optimizer_takes_them() -> None:
    shown = settings_text(named("adan"), {"lr": 0.0123456789, "one_minus_beta1": 0.18, "warmup_factor": 0.1})
    assert shown == "lr 0.0123457, betas (0.82, 0.92, 0.99), warmup_factor 0.1, warmup_cosine"
