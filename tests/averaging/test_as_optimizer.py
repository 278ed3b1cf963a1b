"""To everything else an average is the optimizer it wraps."""

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook

import fallline
from fallline.averaging import LawaEma, LawaQueue, WeightEma
from tests.contract.trajectories import assert_near, assert_same, parameters, set_gradients, values

from .averages import MAKERS, averaged, own, run

SCHEDULES = {
    "cosine": lambda opt: lr_scheduler.CosineAnnealingLR(opt, 6),
    "one cycle": lambda opt: lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=12),
    "plateau": lambda opt: lr_scheduler.ReduceLROnPlateau(opt, patience=1),
    "sequence": lambda opt: lr_scheduler.SequentialLR(
        opt,
        [lr_scheduler.LinearLR(opt, 0.1, total_iters=3), lr_scheduler.ExponentialLR(opt, 0.9)],
        milestones=[3],
    ),
}


@pytest.mark.parametrize("attached", ["wrapper", "wrapped"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("library", [torch.optim, fallline])
def test_schedulers(library, schedule, attached, recwarn):
    plain, wrapped = parameters((5, 3), (4,)), parameters((5, 3), (4,))
    opt = library.AdamW(plain, lr=0.02)
    average = LawaQueue(library.AdamW(wrapped, lr=0.02), 0, 1, k=2)
    pairs = [(opt, opt), (average, average if attached == "wrapper" else average.optimizer)]
    for stepped, scheduled in pairs:
        scheduler = SCHEDULES[schedule](scheduled)
        for step in range(8):
            run(stepped, range(step, step + 1))
            scheduler.step(*([1.0] if schedule == "plateau" else []))
    assert_same(values(wrapped), values(plain))
    assert average.param_groups[0]["lr"] == opt.param_groups[0]["lr"]
    assert average.updates == 8
    assert not [w for w in recwarn if "lr_scheduler.step()" in str(w.message)]


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda params: torch.optim.SGD(params, lr=0.1),
        lambda params: torch.optim.SGD(params, lr=0.1, fused=True),
        lambda params: fallline.SGD(params, lr=0.1),
        lambda params: fallline.SGD(params, lr=0.1, foreach=False, fused=False),
    ],
    ids=["torch", "torch fused", "native", "eager"],
)
def test_grad_scaler_steps_and_skips(make, unscale):
    plain, wrapped = parameters((5, 3)), parameters((5, 3))
    opt, average = make(plain), LawaEma(make(wrapped), 0, 1, beta=0.5)
    for stepped in (opt, average):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        scaler.scale(torch.ones(()))
        for step in range(4):
            set_gradients(own(stepped), step, scale=64.0)
            if step == 2:
                own(stepped)[0].grad[0, 0] = float("inf")
            if unscale:
                scaler.unscale_(stepped)
            scaler.step(stepped)
            scaler.update(64.0)
    assert_near(values(wrapped), values(plain), rtol=1e-6, atol=1e-7)
    assert average.updates == 3
    assert not hasattr(average, "found_inf")


def test_step_skipped_by_the_optimizer_itself_is_no_update():
    (p,) = params = parameters((3,))
    average = WeightEma(fallline.SGD(params, lr=0.1, skip_nonfinite=True))
    run(average, 2)
    p.grad = torch.tensor([1.0, float("nan"), 1.0])
    average.step()
    assert average.updates == 2


def test_groups_states_and_defaults_are_those_of_the_wrapped_optimizer():
    opt = torch.optim.AdamW(parameters((3,)), lr=0.1)
    average = WeightEma(opt)
    assert isinstance(average, torch.optim.Optimizer)
    assert average.param_groups is opt.param_groups
    assert average.state is opt.state
    assert average.defaults is opt.defaults
    run(average, 1)
    average.zero_grad()
    assert own(average)[0].grad is None


def test_everything_else_is_the_wrapped_optimizers():
    average = WeightEma(fallline.AdamW(parameters((3,)), clip_norm=1.0))
    run(average, 1)
    assert average.clip_norm == 1.0
    assert float(average.grad_norm) > 0
    assert average.explain() == average.optimizer.explain()
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = average.no_such_thing


def test_closure_and_its_loss():
    (p,) = params = parameters((3,))
    average = WeightEma(torch.optim.LBFGS(params), decay=0.5)
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        average.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert average.step(closure).item() > 0
    assert average.step(closure=closure).item() < 1e-6
    assert all(calls)
    assert average.updates == 2


@pytest.mark.parametrize("name", MAKERS)
def test_group_added_later_begins_its_own_average(name):
    first, late = parameters((3,), (2,))
    average = MAKERS[name](torch.optim.SGD([first], lr=0.1))
    run(average, 6)
    average.add_param_group({"params": [late], "lr": 0.5})
    assert len(average.param_groups) == 2
    raw = values([late])
    assert_same(averaged(average)[1], raw[0])
    run(average, range(6, 12))
    assert not torch.equal(averaged(average)[1], late)


def test_group_added_in_eval_mode_is_not_swapped():
    first, late = parameters((3,), (2,))
    average = WeightEma(torch.optim.SGD([first], lr=0.1), decay=0.5)
    run(average, 3)
    raw = values([first, late])
    average.eval()
    average.add_param_group({"params": [late]})
    average.train()
    assert_same(values([first, late]), raw)


def test_step_hooks_see_the_average_and_run_around_it():
    params = parameters((3,))
    average = WeightEma(torch.optim.SGD(params, lr=0.1))
    seen = []
    before = average.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("pre", opt is average, opt.updates)))
    average.register_step_post_hook(lambda opt, args, kwargs: seen.append(("post", opt is average, opt.updates)))
    run(average, 1)
    before.remove()
    run(average, 1)
    assert seen == [("pre", True, 0), ("post", True, 1), ("post", True, 2)]


def test_pre_hook_may_replace_the_closure():
    average = WeightEma(torch.optim.SGD(parameters((3,)), lr=0.1))
    average.register_step_pre_hook(lambda opt, args, kwargs: ((opt, lambda: "replaced"), {}))
    assert average.step(lambda: "given") == "replaced"


@pytest.mark.parametrize("library", [torch.optim, fallline])
def test_global_hooks_run_once_per_step(library):
    average = WeightEma(library.SGD(parameters((3,)), lr=0.1))
    seen = []
    handle = register_optimizer_step_post_hook(lambda opt, args, kwargs: seen.append(opt))
    try:
        run(average, 2)
    finally:
        handle.remove()
    assert seen == [average.optimizer] * 2


def test_inside_a_compiled_training_step():
    plain, wrapped = parameters((3,)), parameters((3,))
    average = WeightEma(fallline.AdamW(wrapped, lr=0.1), decay=0.5)

    @torch.compile(backend="eager")
    def train_step():
        average.zero_grad()
        loss = wrapped[0].square().sum()
        loss.backward()
        average.step()
        return loss

    for _ in range(3):
        train_step()
    opt = fallline.AdamW(plain, lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        plain[0].square().sum().backward()
        opt.step()
    assert_same(values(wrapped), values(plain))
    assert average.updates == 3


def test_repr_says_mode_and_settings():
    average = LawaQueue(torch.optim.SGD(parameters((3,)), lr=0.25), 4, 2, k=3)
    assert repr(average).startswith("LawaQueue(start=4, interval=2, k=3), 0 updates, train mode, of SGD (")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda opt: LawaQueue(opt, -1, 1), ValueError, "start must be a whole number >= 0, got -1"),
        (lambda opt: LawaQueue(opt, 0.5, 1), ValueError, "start must be a whole number >= 0, got 0.5"),
        (lambda opt: LawaQueue(opt, 0, 0), ValueError, "interval must be a whole number >= 1, got 0"),
        (lambda opt: LawaQueue(opt, 0, 1, k=0), ValueError, "k must be a whole number >= 1, got 0"),
        (lambda opt: LawaQueue(opt, "a", 1), TypeError, "start must be a whole number >= 0, got 'a'"),
        (
            lambda opt: LawaQueue.for_steps(opt, 0),
            ValueError,
            "total_steps must be a whole number >= 1, got 0",
        ),
        (lambda opt: LawaEma(opt, 0, 1, beta=1.0), ValueError, r"beta must be in \[0, 1\), got 1"),
        (lambda opt: LawaEma(opt, 0, 1, beta=-0.1), ValueError, r"beta must be in \[0, 1\), got -0.1"),
        (lambda opt: WeightEma(opt, decay=1.5), ValueError, r"decay must be in \[0, 1\), got 1.5"),
        (lambda opt: WeightEma(opt, warmup=10), ValueError, "warmup must be False or True, got 10"),
        (lambda opt: WeightEma(own(opt)), TypeError, "WeightEma wraps an optimizer, got list"),
        (lambda opt: LawaQueue(WeightEma(opt), 0, 1), TypeError, "WeightEma averages its weights itself"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make(torch.optim.SGD(parameters((3,)), lr=0.1))


@pytest.mark.parametrize(("name", "made"), [("lawa_queue", "LawaQueue"), ("lawa_ema", "LawaEma"), ("WeightEma",) * 2])
def test_asked_for_as_an_optimizer_it_says_how_it_is_made(name, made):
    for call in (lambda: fallline.info(name), lambda: fallline.create(name, [torch.ones(3, requires_grad=True)])):
        with pytest.raises(ValueError, match=rf"no optimizer but an average .*fallline\.{made}\(optimizer"):
            call()
