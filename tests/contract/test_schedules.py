"""Hyperparameters may change at any time: by schedulers, by hand, in tensors."""

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import fallline

from .trajectories import (
    TORCH_CASES,
    Unchanged,
    assert_near,
    assert_same,
    copies,
    named,
    parameters,
    run,
    set_gradients,
    values,
)

SCHEDULES = {
    "step": lambda opt: lr_scheduler.StepLR(opt, step_size=2, gamma=0.3),
    "lambda": lambda opt: lr_scheduler.LambdaLR(opt, lambda step: 1.0 / (1 + step)),
    "warmup": lambda opt: lr_scheduler.LinearLR(opt, start_factor=0.01, total_iters=4),
    "one cycle": lambda opt: lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=12, cycle_momentum=True),
    "cyclic": lambda opt: lr_scheduler.CyclicLR(opt, base_lr=0.001, max_lr=0.05, step_size_up=3, cycle_momentum=True),
    "sequence": lambda opt: lr_scheduler.SequentialLR(
        opt,
        [lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=3), lr_scheduler.CosineAnnealingLR(opt, 8)],
        milestones=[3],
    ),
}


def train(optimizer, schedule, steps=10):
    params = [p for group in optimizer.param_groups for p in group["params"]]
    scheduler = SCHEDULES[schedule](optimizer)
    for step in range(steps):
        set_gradients(params, step)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AdamW", {"lr": 0.02}),
        ("SGD", {"lr": 0.02, "momentum": 0.9}),
        ("RMSprop", {"lr": 0.02, "momentum": 0.9}),
    ],
    ids=named,
)
def test_schedulers_act_as_on_torch(name, options, schedule):
    ours, theirs = parameters((5, 3), (4,)), parameters((5, 3), (4,))
    train(getattr(fallline, name)(ours, **options), schedule)
    train(getattr(torch.optim, name)(theirs, **options), schedule)
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AdamW", {"lr": 0.02}),
        ("SGD", {"lr": 0.02, "momentum": 0.9}),
        ("RMSprop", {"lr": 0.02, "momentum": 0.9}),
    ],
    ids=named,
)
def test_schedule_does_not_describe_the_parameters_anew(name, options, monkeypatch):
    """That takes far longer than a step, and is for changes of flags, tensors and formats."""
    cls = getattr(fallline, name)
    plans = []
    make = cls._new_plan
    monkeypatch.setattr(cls, "_new_plan", lambda self, scope: plans.append(1) or make(self, scope))
    train(cls(parameters((5, 3), (4,)), **options), "one cycle")
    assert len(plans) == 1


def test_scheduler_counts_the_steps_without_a_warning(recwarn):
    params = parameters((5,))
    train(fallline.AdamW(params, lr=0.1), "step")
    assert not [w for w in recwarn if "lr_scheduler.step()" in str(w.message)]


@pytest.mark.parametrize(("name", "options"), TORCH_CASES, ids=named)
def test_learning_rate_in_a_tensor_is_read_at_every_step(name, options):
    ours, theirs = parameters((5, 3), (4,)), parameters((5, 3), (4,))
    rate = torch.tensor(0.05)
    a = getattr(fallline, name)(ours, **{**options, "lr": rate})
    b = getattr(fallline, name)(theirs, **{**options, "lr": 0.05})
    run(a, 2)
    run(b, 2)
    rate.fill_(0.001)
    b.param_groups[0]["lr"] = rate.item()
    run(a, range(2, 4))
    run(b, range(2, 4))
    assert_same(values(ours), values(theirs))


def test_scheduler_on_a_tensor_learning_rate():
    ours, theirs = parameters((5, 3)), parameters((5, 3))
    train(fallline.AdamW(ours, lr=torch.tensor(0.02)), "warmup")
    train(torch.optim.AdamW(theirs, lr=0.02), "warmup")
    assert_near(values(ours), values(theirs))


def test_betas_in_tensors():
    ours, theirs = parameters((5, 3)), parameters((5, 3))
    betas = (torch.tensor(0.75, dtype=torch.float64), torch.tensor(0.875, dtype=torch.float64))
    run(fallline.AdamW(ours, lr=0.1, betas=betas), 3)
    run(fallline.AdamW(theirs, lr=0.1, betas=(0.75, 0.875)), 3)
    assert_same(values(ours), values(theirs))


@pytest.mark.parametrize("array", [torch.tensor, np.array])
def test_hyperparameters_in_arrays(array):
    ours, theirs = parameters((5, 3)), parameters((5, 3))
    run(fallline.AdamW(ours, lr=array(0.125), betas=array([0.75, 0.875])), 3)
    run(fallline.AdamW(theirs, lr=0.125, betas=(0.75, 0.875)), 3)
    assert_same(values(ours), values(theirs))


def test_betas_changed_in_the_middle():
    ours, theirs = parameters((5, 3)), parameters((5, 3))
    for opt in (fallline.AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)):
        run(opt, 3)
        opt.param_groups[0]["betas"] = [0.5, 0.9]
        run(opt, range(3, 6))
    assert_near(values(ours), values(theirs))


def test_flags_changed_in_the_middle():
    ours, theirs = parameters((5, 3)), parameters((5, 3))
    for opt in (fallline.SGD(ours, lr=0.1, momentum=0.9), torch.optim.SGD(theirs, lr=0.1, momentum=0.9)):
        run(opt, 2)
        opt.param_groups[0]["nesterov"] = True
        run(opt, range(2, 4))
        opt.param_groups[0].update(nesterov=False, momentum=0.0)
        run(opt, range(4, 6))
        opt.param_groups[0].update(momentum=0.5, weight_decay=0.1, maximize=True)
        run(opt, range(6, 8))
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Lion", "AdamW8bit"])
def test_zero_learning_rate_moves_states_but_no_weight(name):
    params = parameters((70, 70), (4,))
    before = values(params)
    opt = getattr(fallline, name)(params, lr=0.0)
    run(opt, 3)
    assert_same(values(params), before)
    assert opt.state[params[0]]["step"] == 3
    for key, state in opt.state[params[0]].items():
        assert key == "step" or bool(state.any()), key


@pytest.mark.parametrize(("key", "value"), [("lr", -1.0), ("betas", (0.9, 1.0)), ("eps", float("nan"))])
def test_invalid_value_set_later_is_refused_before_anything_changes(key, value):
    (p,) = parameters((5, 3))
    opt = fallline.AdamW([p], lr=0.1)
    run(opt, 2)
    before, state = values([p]), {k: v.clone() for k, v in opt.state[p].items()}
    opt.param_groups[0][key] = value
    with pytest.raises(ValueError, match=key):
        run(opt, 1)
    assert_same(values([p]), before)
    assert_same(dict(opt.state[p]), state)


def test_learning_rate_from_a_list_of_copies_is_per_group():
    params = parameters((5,), (5,))
    twins = copies(params)
    opt = fallline.SGD([{"params": [p], "lr": rate} for p, rate in zip(params, (0.1, 0.2), strict=True)])
    run(opt, 1)
    for p, twin, rate in zip(params, twins, (0.1, 0.2), strict=True):
        assert_near(p.detach(), twin.detach() - rate * p.grad)


def test_betas_that_a_scheduler_drives_out_of_range_are_refused_by_value():
    """torch goes on with them: at 1 the mean forgets nothing and its correction divides by zero, beyond it diverges."""
    params = parameters((3,))
    opt = fallline.AdamW(params)
    schedule = lr_scheduler.CyclicLR(opt, 0.001, 0.01, step_size_up=2, base_momentum=0.8, max_momentum=1.2)
    with Unchanged(opt), pytest.raises(ValueError, match=r"betas\[0\] must be in \[0, 1\), got 1\.2"):
        run(opt, 1)
    schedule.step()
    schedule.step()
    run(opt, 1)
    assert opt.param_groups[0]["betas"][0] == pytest.approx(0.8)
