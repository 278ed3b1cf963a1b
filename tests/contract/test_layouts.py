"""Any memory layout gives the same result; real overlap is refused."""

import pytest
import torch
from torch.nn import Parameter

import fallline

from .trajectories import (
    LOWERINGS,
    assert_near,
    assert_rounded_alike,
    assert_same,
    copies,
    parameters,
    run,
    set_gradients,
    values,
)

TRANSPOSED = lambda t: t.t().contiguous().t()  # noqa: E731


def gapped(t):
    return torch.empty(t.shape[0] * 2, t.shape[1] + 3)[::2, : t.shape[1]].copy_(t)


def reversed_axes(t):
    return torch.empty(t.shape[::-1]).permute(*reversed(range(t.ndim))).copy_(t)


def interleaved(t):
    """Strides (3, 2): steps of one axis fall between those of the other, yet no two elements meet."""
    assert t.shape[1] <= 3
    memory = torch.zeros(3 * t.shape[0] * 2 + 4)
    return memory.as_strided(t.shape, (6, 2)).copy_(t)


def crossing(t):
    """Two rows, strides (3, 2): 0 2 4 / 3 5 7."""
    return torch.zeros(16).as_strided((2, 3), (3, 2)).copy_(t)


LAYOUTS = {
    "contiguous": lambda t: t.contiguous(),
    "transposed": TRANSPOSED,
    "gapped": gapped,
    "offset": lambda t: torch.empty(t.numel() + 5)[5:].view(t.shape).copy_(t),
    "columns": lambda t: torch.empty(*t.shape, 3)[..., 1].copy_(t),
}


def in_layout(t, layout):
    made = LAYOUTS[layout](t)
    assert torch.equal(made, t)
    return made


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native", "native each"])
@pytest.mark.parametrize("grad_layout", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_and_gradients_in_any_pair_of_layouts(layout, grad_layout, lowering):
    plain = parameters((7, 5), (6, 6))
    params = [Parameter(in_layout(p.detach(), layout)) for p in plain]
    assert params[0].stride() == in_layout(plain[0].detach(), layout).stride()
    a = fallline.AdamW(params, lr=0.1, clip_norm=3.0, **LOWERINGS[lowering])
    b = fallline.AdamW(plain, lr=0.1, clip_norm=3.0, **LOWERINGS[lowering])
    for step in range(3):
        set_gradients(plain, step)
        for p, q in zip(params, plain, strict=True):
            p.grad = in_layout(q.grad, grad_layout)
        a.step()
        b.step()
    assert_same(values(params), values(plain))


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "RMSprop", "Lion"])
def test_transposed_gradients_where_torch_fused_is_wrong(name):
    plain, params = parameters((9, 9)), parameters((9, 9))
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    a, b = (getattr(fallline, name)(ps, lr=0.1, **options) for ps in (params, plain))
    for step in range(3):
        set_gradients(plain, step)
        params[0].grad = TRANSPOSED(plain[0].grad)
        a.step()
        b.step()
    assert_same(values(params), values(plain))


@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("layout", ["transposed", "gapped"])
def test_layout_does_not_change_low_bit_states(layout, state_dtype):
    plain = parameters((70, 65))
    params = [Parameter(in_layout(plain[0].detach(), layout))]
    a, b = (fallline.AdamW(ps, lr=0.1, state_dtype=state_dtype) for ps in (params, plain))
    run(a, 3)
    run(b, 3)
    found, expected = ({"p": ps[0].detach(), **opt.state[ps[0]]} for ps, opt in ((params, a), (plain, b)))
    if state_dtype == "int8":  # whose contiguous tensors have kernels of their own
        assert_rounded_alike(found, expected, lr=0.1)
    else:
        assert_same({key: value.contiguous() for key, value in found.items()}, expected)


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize("grad_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("param_format", [torch.contiguous_format, torch.channels_last])
def test_channels_last(param_format, grad_format, lowering):
    plain, params = parameters((8, 4, 3, 3)), parameters((8, 4, 3, 3))
    params[0].data = params[0].data.contiguous(memory_format=param_format)
    a, b = fallline.AdamW(params, lr=0.1, **LOWERINGS[lowering]), torch.optim.AdamW(plain, lr=0.1)
    for step in range(3):
        set_gradients(plain, step)
        params[0].grad = plain[0].grad.contiguous(memory_format=grad_format)
        a.step()
        b.step()
    assert_near(values(params), values(plain))
    assert params[0].is_contiguous(memory_format=param_format)


def test_convolution_trained_in_channels_last():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    twin = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    twin.load_state_dict(model.state_dict())
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 12, 12)
    for m, opt in ((model, fallline.AdamW(model.parameters())), (twin, torch.optim.AdamW(twin.parameters()))):
        for _ in range(3):
            opt.zero_grad()
            m(x).square().mean().backward()
            opt.step()
    assert_near(values(model.parameters()), values(twin.parameters()), rtol=1e-3, atol=1e-4)


def test_gradient_layout_changes_from_step_to_step():
    plain, params = parameters((6, 6)), parameters((6, 6))
    params[0].data = TRANSPOSED(params[0].data)
    a, b = fallline.AdamW(params, lr=0.1), fallline.AdamW(plain, lr=0.1)
    layouts = ["transposed", "contiguous", "gapped", "columns", "contiguous", "transposed"]
    for step, layout in enumerate(layouts):
        set_gradients(plain, step)
        params[0].grad = in_layout(plain[0].grad, layout)
        a.step()
        b.step()
    assert_same(values(params), values(plain))


def test_expanded_gradient():
    ours, theirs = parameters((6, 5)), parameters((6, 5))
    for p, opt in ((ours[0], fallline.AdamW(ours)), (theirs[0], torch.optim.AdamW(theirs))):
        p.grad = torch.tensor([[2.0]]).expand(6, 5)
        opt.step()
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize("make", [interleaved, crossing])
def test_interleaved_memory_without_overlap_is_accepted(make, lowering):
    plain = parameters((2, 3))
    params = [Parameter(make(plain[0].detach()))]
    run(fallline.AdamW(params, lr=0.1, **LOWERINGS[lowering]), 3)
    run(fallline.AdamW(plain, lr=0.1, **LOWERINGS[lowering]), 3)
    assert_same(values(params), values(plain))


@pytest.mark.parametrize(
    "overlapping",
    [
        lambda: torch.zeros(1).expand(5),
        lambda: torch.zeros(5, 1).expand(5, 4),
        lambda: torch.zeros(10).as_strided((4, 4), (1, 1)),
        lambda: torch.zeros(10).as_strided((3, 4), (2, 1)),
        lambda: torch.zeros(10).unfold(0, 4, 2),
    ],
)
def test_parameter_that_overlaps_itself_is_refused(overlapping):
    tensor = overlapping().requires_grad_()
    with pytest.raises(ValueError, match=r"parameter 0.*overlaps itself.*clone"):
        fallline.AdamW([tensor])


def test_parameters_that_share_memory_are_refused_before_anything_changes():
    base = torch.zeros(10)
    a, b = Parameter(base[:6]), Parameter(base[4:])
    opt = fallline.AdamW([a, b])
    set_gradients([a, b], 0)
    with pytest.raises(ValueError, match=r"parameter 0.*parameter 1.*share memory"):
        opt.step()
    assert not base.any() and not opt.state_dict()["state"]


def test_parameters_that_are_slices_or_columns_of_one_buffer():
    flat, matrix = torch.zeros(12), torch.zeros(4, 6)
    params = [Parameter(flat[:5]), Parameter(flat[5:]), Parameter(matrix[:, :2]), Parameter(matrix[:, 2:])]
    twins = copies(params)
    run(fallline.AdamW(params, lr=0.1), 2)
    run(fallline.AdamW(twins, lr=0.1), 2)
    assert_same(values(params), values(twins))
    assert_same(flat, torch.cat(values(params[:2])))


# ---------------------------------------------------------------------- tensors replaced between steps


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
def test_state_replaced_by_the_user_with_other_strides(lowering):
    plain, params = parameters((6, 5)), parameters((6, 5))
    a = fallline.AdamW(params, lr=0.1, **LOWERINGS[lowering])
    b = fallline.AdamW(plain, lr=0.1, **LOWERINGS[lowering])
    run(a, 2)
    run(b, 2)
    mine = TRANSPOSED(a.state[params[0]]["exp_avg"])
    a.state[params[0]]["exp_avg"] = mine
    run(a, range(2, 4))
    run(b, range(2, 4))
    assert_same(values(params), values(plain))
    assert a.state[params[0]]["exp_avg"] is mine
    assert_same(mine.contiguous(), b.state[plain[0]]["exp_avg"])


@pytest.mark.parametrize("way", ["item", "update", "setdefault", "or", "whole entry", "whole state", "in place"])
def test_every_way_of_replacing_a_state_reaches_the_kernel(way):
    (p,) = parameters((6, 5))
    opt = fallline.SGD([p], lr=1.0, momentum=1.0)
    run(opt, 1)
    fresh = torch.full((6, 5), 3.0)
    if way == "item":
        opt.state[p]["momentum_buffer"] = fresh
    elif way == "update":
        opt.state[p].update(momentum_buffer=fresh)
    elif way == "setdefault":
        del opt.state[p]["momentum_buffer"]
        opt.state[p].setdefault("momentum_buffer", fresh)
    elif way == "or":
        opt.state[p] |= {"momentum_buffer": fresh}
    elif way == "whole entry":
        opt.state[p] = {"step": torch.tensor(1.0), "momentum_buffer": fresh}
    elif way == "whole state":
        opt.state = {p: {"step": torch.tensor(1.0), "momentum_buffer": fresh}}
    else:
        opt.state[p]["momentum_buffer"].copy_(fresh)
    before = values([p])[0]
    p.grad = torch.zeros(6, 5)
    opt.step()
    assert_same(p.detach(), before - 3.0)


@pytest.mark.parametrize(
    "state",
    [
        torch.zeros(3),
        torch.zeros(5, 6),
        torch.zeros(6, 5, dtype=torch.int32),
        torch.zeros(6, 5, dtype=torch.complex64),
        1.0,
    ],
)
def test_state_of_the_wrong_kind_is_refused_and_nothing_is_touched(state):
    p, q = parameters((6, 5), (3,))
    opt = fallline.AdamW([q, p])
    run(opt, 1)
    before = values([p, q])
    opt.state[p]["exp_avg"] = state
    with pytest.raises(ValueError, match=r"parameter 1.*exp_avg"):
        opt.step()
    assert_same(values([p, q]), before)


def test_state_that_overlaps_itself_gets_memory_of_its_own():
    (p,) = parameters((6, 5))
    opt = fallline.SGD([p], lr=1.0, momentum=0.5)
    run(opt, 1)
    opt.state[p]["momentum_buffer"] = torch.tensor(2.0).expand(6, 5)
    set_gradients([p], 1)
    opt.step()
    assert_near(opt.state[p]["momentum_buffer"], 1.0 + p.grad)


def test_low_bit_codes_replaced_by_the_user():
    (p,), (q,) = parameters((64, 64)), parameters((64, 64))
    a, b = fallline.AdamW8bit([p], lr=0.1), fallline.AdamW8bit([q], lr=0.1)
    run(a, 2)
    run(b, 2)
    a.state[p]["exp_avg:int8"] = TRANSPOSED(a.state[p]["exp_avg:int8"])
    run(a, range(2, 4))
    run(b, range(2, 4))
    assert_same(values([p]), values([q]))
    a.state[p]["exp_avg:scale"] = torch.zeros(3)
    with pytest.raises(ValueError, match="exp_avg:scale"):
        a.step()


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize(
    "replacement",
    [
        lambda t: t.clone(),
        TRANSPOSED,
        gapped,
        lambda t: t.t(),
        lambda t: t.double(),
        lambda t: t.bfloat16(),
    ],
    ids=["clone", "transposed memory", "gapped", "transposed values", "float64", "bfloat16"],
)
@pytest.mark.parametrize("like_autograd", [True, False])
def test_data_replaced_between_steps(replacement, lowering, like_autograd):
    (p,) = parameters((6, 6))
    options = {} if replacement(p.data).dtype == torch.float64 else LOWERINGS[lowering]
    opt = fallline.AdamW([p], lr=0.1, **options)
    run(opt, 2)
    state = {key: value.double() for key, value in opt.state[p].items()}
    q = Parameter(replacement(p.data).double().contiguous())
    other = fallline.AdamW([q], lr=0.1)
    other.state[q] = {
        "step": torch.tensor(2.0),
        "exp_avg": state["exp_avg"],
        "exp_avg_sq": state["exp_avg_sq"],
    }
    p.data = replacement(p.data)
    old = values([p])[0]
    p.grad = None
    for step in (2, 3):
        set_gradients([p], step)
        if like_autograd:  # which lays gradients out like the parameter
            p.grad = torch.empty_like(p).copy_(p.grad)
        q.grad = p.grad.double().contiguous()
        opt.step()
        other.step()
    assert not torch.equal(p, old)
    tolerance = 2e-2 if p.dtype == torch.bfloat16 else 1e-5
    assert_near(p.detach().double(), q.detach(), rtol=tolerance, atol=tolerance)


def test_data_replaced_by_another_shape_is_refused():
    (p,) = parameters((6, 6))
    opt = fallline.AdamW([p], lr=0.1)
    run(opt, 1)
    p.grad = None
    p.data = torch.zeros(4, 2)
    p.grad = torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"exp_avg has shape \(6, 6\).*\(4, 2\)"):
        opt.step()


@pytest.mark.parametrize("name", ["AdamW", "Adafactor"])
def test_data_turned_to_another_shape_in_place_is_refused(name):
    (p,) = parameters((6, 5))
    opt = getattr(fallline, name)([p], lr=0.1)
    run(opt, 1)
    p.grad = None
    p.data = p.data.t() if name == "AdamW" else p.data.view(5, 6)
    p.grad = torch.zeros(5, 6)
    with pytest.raises(ValueError, match=r"the state of parameter 0 of group 0: .* has shape \(6, .\); .* should be"):
        opt.step()


def test_data_narrowed_in_place_is_refused():
    (p,) = parameters((6, 6))
    opt = fallline.AdamW([p], lr=0.1)
    run(opt, 1)
    p.grad = None
    p.data = p.data[:4]
    p.grad = torch.zeros(4, 6)
    with pytest.raises(ValueError, match=r"exp_avg has shape \(6, 6\).*\(4, 6\)"):
        opt.step()


def test_gradient_tensors_replaced_every_step():
    ours, theirs = parameters((6, 5), (7,)), parameters((6, 5), (7,))
    a, b = fallline.AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)
    kept = []
    for step in range(4):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        kept.append([p.grad for p in ours])
        a.step()
        b.step()
    assert_near(values(ours), values(theirs))


def test_memory_does_not_grow_with_odd_gradients():
    """The description of a step's gradient must not be kept for ever."""
    (p,) = parameters((6, 5))
    opt = fallline.AdamW([p])
    for step in range(50):
        set_gradients([p], step)
        p.grad = TRANSPOSED(p.grad)
        opt.step()
        if step == 2:
            kept = len(opt._plan.buckets[0].executor.keep[0])
    assert len(opt._plan.buckets[0].executor.keep[0]) == kept
