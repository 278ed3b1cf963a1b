"""Gradients that are absent, empty, shared, of other dtypes; tensors that are refused."""

import weakref

import pytest
import torch
from torch.nn import Parameter

import fallline
from tests.gradients import let_gradients_have

from .trajectories import (
    LOWERINGS,
    OPTIMIZERS,
    assert_near,
    assert_same,
    copies,
    parameters,
    run,
    set_gradients,
    values,
)


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native", "native each"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameter_without_gradient_is_skipped_and_not_counted(name, lowering):
    a, b, c = parameters((70, 70), (5,), (3,))
    opt = getattr(fallline, name)([a, b, c], **LOWERINGS[lowering])
    run(opt, 2)
    before = values([b])
    state = {key: value.clone() for key, value in opt.state[b].items()}
    set_gradients([a, b, c], 5)
    b.grad = None
    opt.step()
    assert_same(values([b]), before)
    assert_same(dict(opt.state[b]), state)
    assert [opt.state[p]["step"].item() for p in (a, b, c)] == [3, 2, 3]


def test_parameter_that_never_had_a_gradient_has_no_state():
    a, b = parameters((5,), (3,))
    opt = fallline.AdamW([a, b])
    set_gradients([a], 0)
    opt.step()
    assert b not in opt.state or not opt.state[b]
    assert set(opt.state_dict()["state"]) == {0}


def test_step_without_any_gradient_does_nothing():
    opt = fallline.AdamW(params := parameters((5,), (3,)))
    before = values(params)
    opt.step()
    assert_same(values(params), before)
    assert opt.state_dict()["state"] == {}


@pytest.mark.parametrize(
    ("name", "lowering"),
    [
        *((name, how) for name in ("SGD", "AdamW", "Lion", "Adam8bit") for how in LOWERINGS if how != "compiled"),
        ("AdamW", "compiled"),
    ],
)
def test_empty_and_scalar_tensors(name, lowering):
    a, b, c, d = parameters((0,), (), (3, 0, 2), (1,))
    opt = getattr(fallline, name)([a, b, c, d], lr=0.1, clip_norm=100.0, **LOWERINGS[lowering])
    before = values([b, d])
    run(opt, 3)
    assert [p.shape for p in (a, b, c, d)] == [(0,), (), (3, 0, 2), (1,)]
    assert [opt.state[p]["step"].item() for p in (a, b, c, d)] == [3] * 4
    assert not torch.equal(b, before[0]) and not torch.equal(d, before[1])


def test_only_empty_tensors():
    opt = fallline.AdamW(params := parameters((0,), (2, 0)), clip_norm=1.0)
    run(opt, 2)
    assert opt.state[params[0]]["step"] == 2
    assert opt.grad_norm == 0


def test_parameter_that_requires_no_gradient_is_left_alone():
    a, b = parameters((5,), (3,))
    b.requires_grad_(False)
    opt = fallline.AdamW([a, b], lr=0.1)
    before = values([b])
    (a.sum() + b.sum()).backward()
    opt.step()
    assert_same(values([b]), before)


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize(
    ("dtype", "grad_dtype"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float64),
        (torch.float32, torch.float16),
    ],
)
def test_gradients_of_another_dtype(dtype, grad_dtype, lowering):
    (p,) = parameters((6, 5), dtype=dtype)
    (q,) = copies([p])
    let_gradients_have(grad_dtype, [p])
    a = fallline.AdamW([p], lr=0.1, **LOWERINGS[lowering])
    b = fallline.AdamW([q], lr=0.1, foreach=False, fused=False)
    for step in range(3):
        set_gradients([q], step)
        p.grad = q.grad.to(grad_dtype)
        q.grad = p.grad.to(dtype)
        if grad_dtype.itemsize > dtype.itemsize and dtype != torch.float32:
            p.grad = q.grad.to(grad_dtype)
        a.step()
        b.step()
    assert_near(values([p]), values([q]), rtol=1e-2 if dtype != torch.float32 else 2e-5)


FORMS = {
    "plain": lambda g: g,
    "turned around": lambda g: g.mT.contiguous().mT,
    "gapped": lambda g: g.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda g: g[:1].expand_as(g),
    "negated": lambda g: torch._neg_view(g),
    "bfloat16": lambda g: g.bfloat16(),
    "float16": lambda g: g.half(),
    "float64": lambda g: g.double(),
    "absent": lambda g: None,
}


@pytest.mark.parametrize("lowering", ["foreach", "native", "native each"])
@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}], ids=["plain", "clipped"])
def test_gradients_that_change_from_step_to_step(options, lowering):
    """What is known of the last step's gradients must never be taken for this step's."""
    params = parameters((6, 5), (4, 3), (2, 3, 5))
    twins = copies(params)
    let_gradients_have(None, [*params, *twins])
    ours = fallline.AdamW(params, lr=0.1, **options, **LOWERINGS[lowering])
    reference = fallline.AdamW(twins, lr=0.1, **options, **LOWERINGS["eager"])
    random = torch.Generator().manual_seed(3)
    forms = list(FORMS.values())
    for step in range(30):
        set_gradients(twins, step)
        for p, q in zip(params, twins, strict=True):
            # Every third step is like the one before it.
            if step % 3 != 2:
                p.form = forms[torch.randint(len(forms), (), generator=random)]
            p.grad = q.grad = p.form(q.grad)
        ours.step()
        reference.step()
        assert_near(values(params), values(twins))
        if options:
            assert_near(ours.grad_norm, reference.grad_norm)


def test_gradients_wider_than_the_parameter_are_used_in_full():
    p = Parameter(torch.zeros(4, dtype=torch.bfloat16))
    let_gradients_have(torch.float32, [p])
    opt = fallline.SGD([p], lr=1.0, momentum=0.9)
    p.grad = torch.full((4,), 1.0 + 2**-12)
    opt.step()
    assert_same(opt.state[p]["momentum_buffer"], torch.full((4,), 1.0 + 2**-12))


def test_gradient_shared_by_two_parameters():
    a, b = parameters((5,), (5,))
    c, d = copies([a, b])
    gradient = torch.randn(5)
    ours, theirs = fallline.AdamW([a, b], lr=0.1), torch.optim.AdamW([c, d], lr=0.1)
    for _ in range(2):
        for p in (a, b, c, d):
            p.grad = gradient
        ours.step()
        theirs.step()
    assert_near(values([a, b]), values([c, d]))


def test_gradient_is_read_only():
    (p,) = parameters((5,))
    for lowering in ("eager", "foreach", "native"):
        set_gradients([p], 0)
        kept = p.grad.clone()
        fallline.SGD([p], lr=0.1, weight_decay=0.5, maximize=True, clip_norm=0.01, **LOWERINGS[lowering]).step()
        assert_same(p.grad, kept)


def test_several_devices_in_one_optimizer():
    here, there = parameters((5,))[0], Parameter(torch.zeros(3, device="meta"))
    (twin,) = copies([here])
    opt = fallline.AdamW([here, there], lr=0.1)
    set_gradients([here, twin], 0)
    here.grad, there.grad = twin.grad.clone(), torch.zeros(3, device="meta")
    opt.step()
    torch.optim.AdamW([twin], lr=0.1).step()
    assert_near(values([here]), values([twin]))
    assert opt.state[there]["exp_avg"].device.type == "meta"
    assert "the parameter is on meta" in opt.explain()


@pytest.fixture(scope="module")
def mesh():
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this torch has no distributed package")
    from torch.distributed.device_mesh import init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def test_a_parameter_of_pending_sums_is_refused_by_name(mesh):
    from torch.distributed.tensor import DTensor, Partial

    pending = Parameter(DTensor.from_local(torch.zeros(4, 3), mesh, [Partial()]))
    with pytest.raises(ValueError, match=r"parameter 0.*pending sums.*redistribute"):
        fallline.AdamW([pending])


def test_tensor_subclass_without_memory_is_refused():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError(func)

    wrapped = Wrapper(torch.zeros(3)).requires_grad_()
    with pytest.raises(TypeError, match=r"parameter 0.*Wrapper"):
        fallline.AdamW([wrapped])


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}], ids=["plain", "clipped"])
def test_gradients_are_let_go_after_the_step(lowering, options):
    """Kept until the next step they would stand in memory beside the new ones."""
    p = torch.ones(5000, requires_grad=True)
    optimizer = fallline.AdamW([p], **LOWERINGS[lowering], **options)
    for _ in range(2):
        p.grad = torch.ones(5000)
        alive = weakref.ref(p.grad)
        optimizer.step()
        optimizer.zero_grad()
        assert alive() is None
