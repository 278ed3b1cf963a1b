"""The classes: torch schedulers, exact after a restart, for any number of groups."""

import io

import pytest
import torch
from torch.optim import lr_scheduler

import fallline
from fallline.averaging import WeightEma
from fallline.schedules import (
    EqualCycles,
    NestedRestarts,
    WarmupCosine,
    WarmupStableDecay,
    equal_cycles,
    nested_restarts,
    warmup_cosine,
    warmup_stable_decay,
)
from tests.contract.trajectories import assert_same, parameters, run, values

SCHEDULES = {
    "WarmupCosine": (
        WarmupCosine,
        warmup_cosine,
        {"total_steps": 12, "warmup_steps": 3, "first_step": "peak-first"},
    ),
    "EqualCycles": (EqualCycles, equal_cycles, {"total_steps": 12, "warmup_steps": 2, "cycles": 3}),
    "NestedRestarts": (NestedRestarts, nested_restarts, {"total_steps": 12, "warmup_factor": 0.3}),
    "WarmupStableDecay": (WarmupStableDecay, warmup_stable_decay, {"total_steps": 12, "decay_steps": 4}),
}
each_schedule = pytest.mark.parametrize(("cls", "form", "settings"), SCHEDULES.values(), ids=SCHEDULES)


def groups(opt):
    return [group["lr"] for group in opt.param_groups]


def two_groups(library=torch.optim):
    a, b = parameters((3,), (2,))
    return library.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)


@each_schedule
@pytest.mark.parametrize("library", [torch.optim, fallline])
def test_each_update_runs_at_the_rate_of_the_closed_form(library, cls, form, settings, recwarn):
    opt = two_groups(library)
    schedule = cls(opt, **settings)
    for s in range(15):
        assert groups(opt) == [form(s, 0.1, **settings), form(s, 0.5, **settings)]
        assert schedule.get_last_lr() == groups(opt)
        run(opt, range(s, s + 1))
        schedule.step()
    assert isinstance(schedule, lr_scheduler.LRScheduler)
    assert not [w for w in recwarn if "lr_scheduler" in str(w.message)]


@each_schedule
@pytest.mark.parametrize("stop", [0, 1, 7, 13])
def test_resumed_from_a_checkpoint_it_goes_on_exactly(cls, form, settings, stop):
    opt = two_groups()
    schedule = cls(opt, **settings)
    for s in range(stop):
        run(opt, range(s, s + 1))
        schedule.step()
    buffer = io.BytesIO()
    torch.save({"opt": opt.state_dict(), "schedule": schedule.state_dict()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    other = two_groups()
    resumed = cls(other, **{**settings, "total_steps": 40})
    other.load_state_dict(saved["opt"])
    resumed.load_state_dict(saved["schedule"])
    for _ in range(15):
        assert groups(other) == groups(opt)
        for o, s in ((opt, schedule), (other, resumed)):
            o.step()
            s.step()


@each_schedule
def test_last_epoch_resumes_from_the_groups_own_initial_rate(cls, form, settings):
    opt = two_groups()
    for group in opt.param_groups:
        group["initial_lr"] = group["lr"]
        group["lr"] = 123.0
    cls(opt, **settings, last_epoch=4)
    assert groups(opt) == [form(5, 0.1, **settings), form(5, 0.5, **settings)]


def test_group_added_during_training_has_its_own_peak():
    opt = two_groups()
    schedule = WarmupCosine(opt, total_steps=8, warmup_steps=4)
    opt.step()
    schedule.step()
    opt.add_param_group({"params": parameters((2,)), "lr": 4.0})
    opt.step()
    schedule.step()
    assert groups(opt) == pytest.approx([0.05, 0.25, 2.0])


def test_rates_in_tensors_are_changed_in_place():
    opt = torch.optim.SGD(parameters((3,)), lr=torch.tensor(0.5))
    rate = opt.param_groups[0]["lr"]
    for cls, _, settings in SCHEDULES.values():
        opt.param_groups[0].pop("initial_lr", None)
        rate.fill_(0.5)
        schedule = cls(opt, **settings)
        for _ in range(14):
            opt.step()
            schedule.step()
        assert opt.param_groups[0]["lr"] is rate
        assert rate.item() == pytest.approx(0.0, abs=1e-9)


def test_on_an_averaging_wrapper():
    a, b = parameters((3,)), parameters((3,))
    opt = torch.optim.SGD(a, lr=0.1)
    average = WeightEma(torch.optim.SGD(b, lr=0.1))
    for o in (opt, average):
        schedule = WarmupCosine(o, total_steps=6, warmup_steps=2)
        for s in range(6):
            run(o, range(s, s + 1))
            schedule.step()
    assert_same(values(b), values(a))


def test_in_a_sequence_of_schedulers():
    opt = torch.optim.SGD(parameters((3,)), lr=0.1)
    parts = [lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=3), WarmupCosine(opt, total_steps=4)]
    schedule = lr_scheduler.SequentialLR(opt, parts, milestones=[3])
    seen = []
    for _ in range(7):
        seen.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    assert seen == pytest.approx([0.05] * 3 + [warmup_cosine(s, 0.1, total_steps=4) for s in range(4)])


def test_bad_argument_leaves_the_optimizer_alone():
    opt = two_groups()
    with pytest.raises(ValueError, match="warmup_steps must be at most"):
        WarmupCosine(opt, total_steps=2, warmup_steps=3)
    assert groups(opt) == [0.1, 0.5]
    assert "initial_lr" not in opt.param_groups[0]
    with pytest.raises(TypeError, match="list is not an Optimizer"):
        WarmupCosine([1], total_steps=2)
