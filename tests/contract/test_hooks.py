"""Closures, hooks, zero_grad, the profiler, autograd's version counters."""

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import fallline

from .trajectories import LOWERINGS, assert_same, parameters, run, set_gradients, values


def test_closure_runs_once_with_gradients_enabled_and_its_loss_is_returned():
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        opt.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    before = values([p])[0]
    with torch.no_grad():
        loss = opt.step(closure)
        assert not torch.is_grad_enabled()
    assert calls == [True]
    assert_same(loss.detach(), before.square().sum())
    assert not torch.equal(p, before)
    assert opt.step(closure=closure) is not None


def test_step_without_closure_returns_nothing_and_keeps_grad_mode():
    (p,) = parameters((3,))
    set_gradients([p], 0)
    assert fallline.AdamW([p]).step() is None
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("where", ["optimizer", "global"])
def test_step_hooks_run_around_the_step(where):
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    set_gradients([p], 0)
    before, seen = values([p])[0], []

    def pre(optimizer, args, kwargs):
        seen.append(("pre", optimizer is opt, torch.equal(p, before)))

    def post(optimizer, args, kwargs):
        seen.append(("post", optimizer is opt, torch.equal(p, before)))

    if where == "optimizer":
        handles = [opt.register_step_pre_hook(pre), opt.register_step_post_hook(post)]
    else:
        handles = [register_optimizer_step_pre_hook(pre), register_optimizer_step_post_hook(post)]
    opt.step()
    for handle in handles:
        handle.remove()
    assert seen == [("pre", True, True), ("post", True, False)]
    opt.step()
    assert len(seen) == 2


@pytest.mark.parametrize("compiled", [False, True])
def test_step_of_a_subclass_and_hooks_run_once(compiled):
    seen = []

    class Counting(fallline.AdamW):
        def step(self, closure=None):
            seen.append("step")
            return super().step(closure)

    (p,) = parameters((3,))
    opt = Counting([p], lr=0.1)
    opt.register_step_pre_hook(lambda *_: seen.append("pre"))
    opt.register_step_post_hook(lambda *_: seen.append("post"))

    def train():
        p.grad = torch.ones(3)
        opt.step()

    (torch.compile(train, backend="eager") if compiled else train)()
    assert seen == ["pre", "step", "post"]
    assert opt.state[p]["step"] == 1


def test_what_is_put_around_step_runs_once_inside_a_compiled_training_step():
    (p,) = parameters((3,))
    opt, calls = fallline.AdamW([p], lr=0.1), []
    original = opt.step

    def counted(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    opt.step = counted

    def train():
        p.grad = torch.ones(3)
        opt.step()

    torch.compile(train, backend="eager")()
    assert len(calls) == 1


def test_pre_hook_may_replace_the_closure():
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    set_gradients([p], 0)
    opt.register_step_pre_hook(lambda optimizer, args, kwargs: ((optimizer, lambda: "replaced"), {}))
    assert opt.step(lambda: "given") == "replaced"


def test_hook_sees_a_closure_given_by_name():
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    seen = []
    opt.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append((args[1:], set(kwargs))))
    opt.step(closure=lambda: 1.0)
    opt.step(lambda: 1.0)
    opt.step()
    assert [len(args) + len(kwargs) for args, kwargs in seen] == [1, 1, 0]


def test_zero_grad():
    params = parameters((3,), (2, 2))
    opt = fallline.AdamW(params)
    set_gradients(params, 0)
    kept = [p.grad for p in params]
    opt.zero_grad(set_to_none=False)
    assert all(p.grad is g and not g.any() for p, g in zip(params, kept, strict=True))
    opt.zero_grad()
    assert all(p.grad is None for p in params)


def test_zeroed_and_absent_gradients_differ():
    a, b = parameters((3,), (3,))
    opt = fallline.AdamW([a, b], lr=0.1)
    run(opt, 2)
    before = values([a, b])
    opt.zero_grad(set_to_none=False)
    b.grad = None
    opt.step()
    assert not torch.equal(a, before[0])
    assert_same(values([b])[0], before[1])
    assert [opt.state[p]["step"].item() for p in (a, b)] == [3, 2]


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native", "native each"])
def test_profiler_shows_the_step_and_the_rule_by_name(lowering):
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], **LOWERINGS[lowering])
    set_gradients([p], 0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        opt.step()
    names = {event.key for event in profile.key_averages()}
    assert "Optimizer.step#AdamW.step" in names
    assert "fallline::adamw" in names


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_backward_through_a_graph_older_than_the_step_is_an_error(lowering):
    a, b = parameters((3,), (4,))
    opt = fallline.AdamW([a, b], lr=0.1, **LOWERINGS[lowering])
    loss = (a * a).sum() + (b * b).sum()
    loss.backward(retain_graph=True)
    versions = [p._version for p in (a, b)]
    opt.step()
    assert all(p._version > version for p, version in zip((a, b), versions, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_version_of_a_skipped_parameter_stays():
    a, b = parameters((3,), (4,))
    opt = fallline.AdamW([a, b], lr=0.1)
    run(opt, 1)
    versions = [p._version for p in (a, b)]
    a.grad = None
    opt.step()
    assert a._version == versions[0] and b._version > versions[1]


def test_gradients_that_require_grad_do_not_enter_a_graph():
    (p,) = parameters((3,))
    opt = fallline.SGD([p], lr=0.1, momentum=0.9)
    for lowering in ("native", "eager", "foreach"):
        opt.param_groups[0].update(LOWERINGS[lowering])
        (gradient,) = torch.autograd.grad(p.pow(3).sum(), p, create_graph=True)
        p.grad = gradient
        opt.step()
        assert not opt.state[p]["momentum_buffer"].requires_grad
        assert p.is_leaf


def test_state_dict_hooks():
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    run(opt, 1)
    order = []
    opt.register_state_dict_pre_hook(lambda optimizer: order.append("pre"))

    def post(optimizer, saved):
        order.append("post")
        assert saved["fallline"]["rule"] == "adamw"
        assert all(type(entry) is dict for entry in saved["state"].values())
        return {**saved, "note": "mine"}

    opt.register_state_dict_post_hook(post)
    assert opt.state_dict()["note"] == "mine"
    assert order == ["pre", "post"]


def test_load_state_dict_hooks():
    (p,) = parameters((3,))
    opt = fallline.AdamW([p], lr=0.1)
    run(opt, 1)
    saved = opt.state_dict()
    order = []

    def pre(optimizer, state_dict):
        order.append("pre")
        groups = [{**g, "lr": 0.7} for g in state_dict["param_groups"]]
        return {**state_dict, "param_groups": groups}

    opt.register_load_state_dict_pre_hook(pre)
    opt.register_load_state_dict_post_hook(lambda optimizer: order.append(optimizer.param_groups[0]["lr"]))
    opt.load_state_dict(saved)
    assert order == ["pre", 0.7]
    assert saved["param_groups"][0]["lr"] == 0.1
