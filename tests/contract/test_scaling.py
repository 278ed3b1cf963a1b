"""GradScaler, clipping and skipping inside the step."""

import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

import fallline

from .trajectories import (
    LOWERINGS,
    OWN_CASES,
    TORCH_CASES,
    Unchanged,
    assert_near,
    assert_same,
    named,
    parameters,
    set_gradients,
    values,
)

EACH_LOWERING = pytest.mark.parametrize("lowering", LOWERINGS)


def scaler(scale=1024.0):
    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)


def scale_gradients(params, step, by):
    set_gradients(params, step)
    for p in params:
        p.grad.mul_(by)


@EACH_LOWERING
@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize("unscale_first", [False, True])
def test_grad_scaler_unscales_exactly_once(lowering, in_step, unscale_first):
    ours, plain = parameters((7, 5), (4,)), parameters((7, 5), (4,))
    opt = fallline.AdamW(ours, lr=0.1, eps=1e-2, clip_norm=1e9 if in_step else None, **LOWERINGS[lowering])
    assert opt._step_supports_amp_scaling or not in_step
    reference = fallline.AdamW(plain, lr=0.1, eps=1e-2, **LOWERINGS[lowering])
    amp = scaler()
    for step in range(3):
        scale_gradients(ours, step, float(amp.scale(torch.tensor(1.0))))
        set_gradients(plain, step)
        if unscale_first:
            amp.unscale_(opt)
        amp.step(opt)
        amp.update()
        reference.step()
        assert_near([p.grad for p in ours], [p.grad for p in plain])
    assert_near(values(ours), values(plain))
    assert not hasattr(opt, "found_inf")


@pytest.mark.parametrize("options", [{}, {"fused": False}, {"fused": True}], ids=named)
@pytest.mark.parametrize("found_inf", [False, True])
def test_gradients_after_a_scaled_step_are_those_that_torch_leaves(options, found_inf):
    found = []
    for library in (fallline, torch.optim):
        params = parameters((7, 5), (4,), (3,))
        opt, amp = library.AdamW(params, **options), scaler()
        amp.scale(torch.tensor(1.0))
        scale_gradients(params[:2], 0, 1024.0)
        if found_inf:
            params[1].grad[0] = math.inf
        amp.step(opt)
        found.append([p.grad for p in params[:2]])
        assert params[2].grad is None
    if found_inf and options.get("fused"):  # where torch's kernels leave a step that is skipped scaled
        found[1] = [grad / 1024.0 for grad in found[1]]
    assert_same(*found)


def test_sparse_gradients_are_unscaled_too():
    (p,) = parameters((6, 2))
    opt, amp = fallline.SGD([p], lr=0.1, clip_norm=1e9), scaler()
    amp.scale(torch.tensor(1.0))
    p.grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.full((2, 2), 1024.0), (6, 2), check_invariants=True)
    before = values([p])[0]
    amp.step(opt)
    assert_same(p.grad.to_dense()[1], torch.tensor([2.0, 2.0]))
    assert_near(p.detach()[1], before[1] - 0.2)


def test_trainers_may_clip_between_unscaling_and_the_step_unless_the_step_unscales():
    """Lightning refuses to clip the gradients of an optimizer that unscales them by itself."""
    params = parameters((3,))
    unscales = {
        name: fallline.AdamW(params, **options)._step_supports_amp_scaling
        for name, options in {
            "default": {}, "unfused": {"fused": False}, "fused": {"fused": True}, "clips": {"clip_norm": 1.0},
            "skips": {"skip_nonfinite": True},
        }.items()
    }  # fmt: skip
    assert unscales == {"default": False, "unfused": False, "fused": True, "clips": True, "skips": True}
    assert unscales["fused"] == torch.optim.AdamW(params, fused=True)._step_supports_amp_scaling
    opt = fallline.AdamW(params)
    opt.clip_norm = 1.0
    assert opt._step_supports_amp_scaling


def test_clipping_between_unscaling_and_the_step_is_as_in_torch():
    ours, theirs = parameters((7, 5), (4,)), parameters((7, 5), (4,))
    for params, opt in ((ours, fallline.AdamW(ours)), (theirs, torch.optim.AdamW(theirs))):
        amp = scaler()
        amp.scale(torch.tensor(1.0))
        scale_gradients(params, 0, 1024.0)
        amp.unscale_(opt)
        clip_grad_norm_(params, 0.5)
        amp.step(opt)
    assert_near(values(ours), values(theirs))
    assert_same([p.grad for p in ours], [p.grad for p in theirs])


@EACH_LOWERING
@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_grad_scaler_skips_a_step_and_no_counter_advances(lowering, unscale_first, bad):
    params = parameters((7, 5), (4,))
    opt = fallline.AdamW(params, lr=0.1, clip_norm=1.0, **LOWERINGS[lowering])
    amp = scaler()
    scale_gradients(params, 0, float(amp.scale(torch.tensor(1.0))))
    amp.step(opt)
    amp.update()
    scale_gradients(params, 1, amp.get_scale())
    params[1].grad[2] = bad
    if unscale_first:
        amp.unscale_(opt)
    with Unchanged(opt):
        amp.step(opt)
    before = amp.get_scale()
    amp.update()
    assert amp.get_scale() == before / 2
    assert [opt.state[p]["step"].item() for p in params] == [1, 1]


def test_first_step_skipped_by_the_scaler_makes_no_states():
    params = parameters((4,))
    opt = fallline.AdamW(params)
    amp = scaler()
    amp.scale(torch.tensor(1.0))
    params[0].grad = torch.full((4,), math.inf)
    amp.step(opt)
    assert opt.state_dict()["state"] == {}


def test_attributes_as_the_scaler_sets_them():
    params, plain = parameters((4,)), parameters((4,))
    opt, reference = fallline.SGD(params, lr=0.1), fallline.SGD(plain, lr=0.1)
    set_gradients(plain, 0)
    scale_gradients(params, 0, 8.0)
    opt.grad_scale, opt.found_inf = torch.tensor(8.0), torch.tensor(0.0)
    opt.step()
    reference.step()
    assert_same(values(params), values(plain))
    opt.found_inf = torch.tensor(1.0)
    opt.step()
    assert_same(values(params), values(plain))


def test_norm_of_a_step_that_the_scaler_skips_is_not_that_of_the_last_one():
    (p,) = parameters((3,))
    opt, amp = fallline.AdamW([p], clip_norm=10.0), scaler(2.0)
    norms = []
    for value in (1.0, math.inf, 1.0):
        opt.zero_grad()
        amp.scale((p * torch.tensor([value, 0.0, 0.0])).sum()).backward()
        amp.step(opt)
        amp.update()
        norms.append(opt.grad_norm.item())
    assert norms == [1.0, math.inf, 1.0]


def test_trained_with_autocast_and_scaler():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    opt = fallline.AdamW(model.parameters(), lr=0.05, clip_norm=10.0)
    amp = scaler(65536.0)
    x, y = torch.randn(32, 8), torch.randn(32, 4)
    losses = []
    for _ in range(40):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (model(x) - y).square().mean()
        amp.scale(loss).backward()
        amp.step(opt)
        amp.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@EACH_LOWERING
@pytest.mark.parametrize("clip_norm", [0.5, 1e6])
def test_clip_norm_is_torch_clipping_before_the_step(lowering, clip_norm):
    ours, theirs = parameters((7, 5), (4,), ()), parameters((7, 5), (4,), ())
    groups = lambda ps: [{"params": ps[:1], "lr": 0.1}, {"params": ps[1:], "lr": 0.02}]  # noqa: E731
    a = fallline.AdamW(groups(ours), eps=1e-2, clip_norm=clip_norm, **LOWERINGS[lowering])
    b = torch.optim.AdamW(groups(theirs), eps=1e-2)
    for step in range(3):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        norm = clip_grad_norm_(theirs, clip_norm)
        a.step()
        b.step()
        assert_near(a.grad_norm, norm)
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize(("name", "options"), TORCH_CASES + OWN_CASES, ids=named)
def test_clip_norm_in_every_optimizer(name, options):
    ours, theirs = parameters((70, 70), (4,)), parameters((70, 70), (4,))
    a, b = (getattr(fallline, name)(ps, **options) for ps in (ours, theirs))
    a.clip_norm = 0.25
    for step in range(3):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        clip_grad_norm_(theirs, 0.25)
        a.step()
        b.step()
    low = "8bit" in name
    assert_near(values(ours), values(theirs), rtol=1e-3 if low else 1e-4, atol=5e-3 if low else 1e-5)


def test_clip_norm_counts_parameters_of_every_lowering_and_dtype():
    kinds = [torch.float32, torch.bfloat16, torch.float64, torch.complex64]
    params = [parameters((5, 3), dtype=dtype)[0] for dtype in kinds]
    opt = fallline.SGD(params, lr=1.0, clip_norm=1.0)
    set_gradients(params, 0)
    before = values(params)
    norm = math.sqrt(sum(float(torch.view_as_real(p.grad).square().sum()) if p.is_complex()
                         else float(p.grad.double().square().sum()) for p in params))  # fmt: skip
    opt.step()
    assert_near(opt.grad_norm, torch.tensor(norm))
    for p, old in zip(params, before, strict=True):
        tolerance = 2e-2 if p.dtype == torch.bfloat16 else 1e-5
        assert_near(p.detach(), old - p.grad / (norm + 1e-6), rtol=tolerance, atol=tolerance)


def test_clip_norm_leaves_absent_gradients_out_and_takes_sparse_ones_in():
    a, b, c = parameters((5,), (6, 2), (3,))
    opt = fallline.SGD([a, b, c], lr=1.0, clip_norm=1.0)
    a.grad = torch.full((5,), 3.0)
    b.grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.ones(2, 2), (6, 2), check_invariants=True)
    before = values([a, b])
    opt.step()
    norm = math.sqrt(5 * 9 + 2 * 4)
    assert_near(opt.grad_norm, torch.tensor(norm))
    assert_near(values([a])[0], before[0] - 3.0 / norm)
    assert_near(values([b])[0][1], before[1][1] - 2.0 / norm)


def test_clip_norm_after_unscaling():
    ours, theirs = parameters((7, 5)), parameters((7, 5))
    a, b = fallline.SGD(ours, lr=0.1, clip_norm=0.5), torch.optim.SGD(theirs, lr=0.1)
    amp = scaler()
    scale_gradients(ours, 0, float(amp.scale(torch.tensor(1.0))))
    set_gradients(theirs, 0)
    norm = clip_grad_norm_(theirs, 0.5)
    amp.step(a)
    b.step()
    assert_near(a.grad_norm, norm)
    assert_near(values(ours), values(theirs))


def test_clip_norm_with_maximize():
    ours, theirs = parameters((7, 5)), parameters((7, 5))
    a, b = (
        fallline.SGD(ours, lr=0.1, clip_norm=0.5, maximize=True),
        torch.optim.SGD(theirs, lr=0.1, maximize=True),
    )
    set_gradients(ours, 0)
    set_gradients(theirs, 0)
    clip_grad_norm_(theirs, 0.5)
    a.step()
    b.step()
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize("bad", [(math.nan,), (math.inf,), (-math.inf, math.nan), (1e30,)])
def test_clipping_what_is_not_finite_is_as_in_torch(bad, lowering):
    ours, theirs = parameters((7,), (6,)), parameters((7,), (6,))
    a = fallline.SGD(ours, lr=0.1, clip_norm=0.5, **LOWERINGS[lowering])
    b = torch.optim.SGD(theirs, lr=0.1)
    for params in (ours, theirs):
        set_gradients(params, 0)
        for p, value in zip(params, bad, strict=False):
            p.grad[0] = value
    norm = clip_grad_norm_(theirs, 0.5)
    a.step()
    b.step()
    assert_same(a.grad_norm, norm)
    assert_near(values(ours), values(theirs))


def test_norm_of_huge_float64_gradients_does_not_overflow_python():
    (p,) = parameters((3,), dtype=torch.float64)
    opt = fallline.SGD([p], lr=1.0, clip_norm=1.0)
    before = values([p])[0]
    p.grad = torch.full((3,), 1e150, dtype=torch.float64)
    opt.step()
    assert_near(p.detach(), before - 1 / math.sqrt(3))


def test_clip_norm_may_change_between_steps():
    (p,) = parameters((3,))
    opt = fallline.SGD([p], lr=1.0)
    p.grad = torch.full((3,), 10.0)
    opt.step()
    assert opt.grad_norm is None
    opt.clip_norm = 1.0
    before = values([p])[0]
    opt.step()
    assert_near(p.detach(), before - 1 / math.sqrt(3))


@EACH_LOWERING
def test_skip_nonfinite_skips_whole_steps_without_a_scaler(lowering):
    params = parameters((7, 5), (4,))
    opt = fallline.AdamW(params, lr=0.1, skip_nonfinite=True, **LOWERINGS[lowering])
    set_gradients(params, 0)
    opt.step()
    assert math.isfinite(opt.grad_norm)
    for bad in (math.nan, math.inf, -math.inf):
        set_gradients(params, 1)
        params[1].grad[0] = bad
        with Unchanged(opt):
            opt.step()
        assert not math.isfinite(opt.grad_norm)
    set_gradients(params, 1)
    opt.step()
    assert [opt.state[p]["step"].item() for p in params] == [2, 2]


def test_skip_nonfinite_sees_sparse_gradients():
    (p,) = parameters((6, 2))
    opt = fallline.SGD([p], skip_nonfinite=True)
    before = values([p])
    p.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.full((1, 2), math.nan), (6, 2), check_invariants=True)
    opt.step()
    assert_same(values([p]), before)
