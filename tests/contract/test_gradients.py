"""Gradients of every kind: absent, empty, sparse, complex, of other dtypes."""

import pytest
import torch
from torch.nn import Parameter

import fallline

from .trajectories import (
    LOWERINGS,
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

NAMES = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Lion", "AMSGrad", "Adam8bit", "AdamW8bit", "Lion8bit"]


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native", "native each"])
@pytest.mark.parametrize("name", NAMES)
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


# ---------------------------------------------------------------------- sparse

SPARSE = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3, "eps": 1e-3}),
]


def sparse_gradient(p, step):
    random = torch.Generator().manual_seed(step)
    rows = torch.randint(0, p.shape[0], (4,), generator=random)
    rows[-1] = rows[0]  # not coalesced
    picked = torch.randn(4, *p.shape[1:], generator=random).to(p.dtype)
    return torch.sparse_coo_tensor(rows.unsqueeze(0), picked, p.shape, check_invariants=True)


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize(("name", "options"), SPARSE, ids=named)
def test_sparse_gradients_equal_torch(name, options, lowering):
    ours, theirs = parameters((20, 3), (5,)), parameters((20, 3), (5,))
    a = getattr(fallline, name)(ours, **options, **LOWERINGS[lowering])
    b = getattr(torch.optim, name)(theirs, **options)
    for step in range(5):
        for params, opt in ((ours, a), (theirs, b)):
            set_gradients(params, step)
            params[0].grad = sparse_gradient(params[0], step)
            opt.step()
    assert_near(values(ours), values(theirs))
    assert a.state[ours[0]]["step"] == 5


def test_sparse_and_dense_gradients_in_turns():
    ours, theirs = parameters((20, 3)), parameters((20, 3))
    a, b = fallline.Adagrad(ours, lr=0.1), torch.optim.Adagrad(theirs, lr=0.1)
    for step in range(4):
        for params, opt in ((ours, a), (theirs, b)):
            set_gradients(params, step)
            if step % 2:
                params[0].grad = sparse_gradient(params[0], step)
            opt.step()
    assert_near(values(ours), values(theirs))


def test_sparse_gradients_of_an_embedding():
    def train(make):
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(30, 4, sparse=True)
        opt = make(embedding.parameters(), lr=0.1)
        for step in range(4):
            opt.zero_grad()
            embedding(torch.tensor([step, 3, 3])).square().sum().backward()
            opt.step()
        return embedding.weight.detach()

    assert_near(train(fallline.Adagrad), train(torch.optim.Adagrad))


@pytest.mark.parametrize("indices", [1, 2])
def test_sparse_dimensions(indices):
    """Gradients with all axes sparse, and with some."""
    ours, theirs = parameters((6, 5)), parameters((6, 5))
    for params, make in ((ours, fallline.Adagrad), (theirs, torch.optim.Adagrad)):
        opt = make(params, lr=0.1)
        for step in range(3):
            set_gradients(params, step)
            dense = params[0].grad * (torch.arange(6) % 2)[:, None]
            params[0].grad = dense.to_sparse(indices)
            opt.step()
    assert_near(values(ours), values(theirs))


def test_sparse_gradient_without_entries_changes_nothing_but_the_counter():
    (p,) = parameters((6, 5))
    opt = fallline.Adagrad([p], lr=0.1)
    before = values([p])
    p.grad = torch.zeros(6, 5).to_sparse(1)
    opt.step()
    assert_same(values([p]), before)
    assert opt.state[p]["step"] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"state_dtype": "bfloat16"},
        {"state_dtype": "int8"},
        {"stochastic_rounding": True},
        {"master_weights": True},
    ],
)
def test_sparse_gradients_with_other_formats(options):
    """Rows without gradient stay as they are; rows with one move as a dense run's do."""
    dtype = torch.bfloat16 if set(options) & {"stochastic_rounding", "master_weights"} else torch.float32
    (p,) = parameters((500, 16), dtype=dtype)
    (q,) = copies([p])
    sparse, dense = fallline.Adagrad([p], lr=0.1, **options), fallline.Adagrad([q], lr=0.1, **options)
    start = values([p])[0]
    for _ in range(3):
        p.grad = sparse_gradient(p, 7)
        q.grad = p.grad.to_dense()
        sparse.step()
        dense.step()
    assert_near(values([p]), values([q]), rtol=0.05, atol=0.01)
    untouched = (p.grad.to_dense() == 0).all(1)
    assert_same(p.detach()[untouched], start[untouched])
    assert not torch.equal(p.detach()[~untouched], start[~untouched])


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("SGD", "Adagrad")])
def test_sparse_gradient_is_refused_by_name_before_anything_changes(name):
    a, b = parameters((6, 5), (20, 3))
    opt = getattr(fallline, name)([a, b])
    set_gradients([a], 0)
    b.grad = sparse_gradient(b, 0)
    with Unchanged(opt), pytest.raises(TypeError, match=f"{name}.*sparse"):
        opt.step()
    run(opt, 1)
    set_gradients([a], 0)
    b.grad = sparse_gradient(b, 0)
    with Unchanged(opt), pytest.raises(TypeError, match=r"parameter 1.*SGD"):
        opt.step()


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_weight_decay_with_a_sparse_gradient_is_refused(name):
    (p,) = parameters((20, 3))
    opt = getattr(fallline, name)([p], weight_decay=0.1)
    p.grad = sparse_gradient(p, 0)
    with Unchanged(opt), pytest.raises(ValueError, match=r"weight_decay=0\.1.*sparse"):
        opt.step()


# ---------------------------------------------------------------------- complex


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(("name", "options"), TORCH_CASES, ids=named)
def test_complex_parameters_equal_torch(name, options, dtype):
    ours, theirs = (parameters((4, 5), (), (3, 0), dtype=dtype) for _ in range(2))
    a, b = getattr(fallline, name)(ours, **options), getattr(torch.optim, name)(theirs, **options)
    run(a, 4)
    run(b, 4)
    assert_near(values(ours), values(theirs))
    key = next((k for k in b.state[theirs[0]] if k != "step"), None)
    if key is not None:
        assert_near(a.state[ours[0]][key], b.state[theirs[0]][key])


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_complex_parameters_in_every_lowering(lowering):
    ours, theirs = (parameters((4, 5), (), dtype=torch.complex64) for _ in range(2))
    run(fallline.AdamW(ours, lr=0.1, clip_norm=0.5, **LOWERINGS[lowering]), 3)
    opt = torch.optim.AdamW(theirs, lr=0.1)
    for step in range(3):
        set_gradients(theirs, step)
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        opt.step()
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
@pytest.mark.parametrize("view", ["conj", "neg", "conj of neg", "transposed conj"])
def test_lazily_conjugated_and_negated_gradients(view, lowering):
    ours, theirs = parameters((4, 4), dtype=torch.complex64), parameters((4, 4), dtype=torch.complex64)
    a = fallline.AdamW(ours, lr=0.1, **LOWERINGS[lowering])
    b = fallline.AdamW(theirs, lr=0.1, foreach=False, fused=False)
    for step in range(2):
        set_gradients(ours, step)
        plain = ours[0].grad
        lazy = {
            "conj": plain.conj(),
            "neg": torch._neg_view(plain),
            "conj of neg": torch._neg_view(plain).conj(),
            "transposed conj": plain.mH,
        }[view]
        assert lazy.is_conj() or lazy.is_neg()
        ours[0].grad, theirs[0].grad = lazy, lazy.clone().resolve_conj().resolve_neg()
        a.step()
        b.step()
    assert_near(values(ours), values(theirs))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
def test_real_gradient_that_is_a_lazily_negated_view(lowering, size):
    """What autograd gives for the imaginary part of a conjugate."""
    p, q = Parameter(torch.zeros(size)), Parameter(torch.zeros(size))
    opt = fallline.SGD([p, q], lr=1.0, **LOWERINGS[lowering])
    gradient = torch.complex(torch.ones(size), torch.full((size,), 2.0)).conj().imag
    assert gradient.is_neg()
    p.grad, q.grad = gradient, torch.ones(size)
    opt.step()
    assert_same(p.detach(), torch.full((size,), 2.0))
    assert_same(q.detach(), torch.full((size,), -1.0))


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
@pytest.mark.parametrize("view", ["conj", "neg"])
def test_parameter_that_is_a_lazily_conjugated_or_negated_view(view, name):
    base, twin = (parameters((4, 3), dtype=torch.complex64)[0].detach() for _ in range(2))
    lazy, plain = (
        (base.conj(), twin.conj().resolve_conj()) if view == "conj" else (torch._neg_view(base.real), -twin.real)
    )
    p, q = Parameter(lazy), Parameter(plain)
    assert p.is_conj() or p.is_neg()
    a, b = getattr(fallline, name)([p], lr=0.1), getattr(fallline, name)([q], lr=0.1)
    run(a, 3)
    run(b, 3)
    assert_near(values([p])[0].resolve_conj().resolve_neg(), values([q])[0])
    # The memory behind the view has moved too.
    assert_near(base.conj().resolve_conj() if view == "conj" else -base.real, values([q])[0])
    assert "view" in a.explain()


def test_complex_sparse_gradient():
    ours, theirs = parameters((6, 3), dtype=torch.complex64), parameters((6, 3), dtype=torch.complex64)
    for params, sparse in ((ours, True), (theirs, False)):
        opt = fallline.SGD(params, lr=0.1)
        for step in range(2):
            gradient = sparse_gradient(params[0], step)
            params[0].grad = gradient if sparse else gradient.to_dense()
            opt.step()
    assert_near(values(ours), values(theirs))


# ---------------------------------------------------------------------- dtypes, devices, subclasses


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
    if not hasattr(p, "grad_dtype"):
        pytest.skip("this torch keeps gradients in the parameter's dtype")
    p.grad_dtype = grad_dtype
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


def test_gradients_wider_than_the_parameter_are_used_in_full():
    p = Parameter(torch.zeros(4, dtype=torch.bfloat16))
    if not hasattr(p, "grad_dtype"):
        pytest.skip("this torch keeps gradients in the parameter's dtype")
    p.grad_dtype = torch.float32
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


def test_distributed_parameter_is_refused_by_name(mesh):
    from torch.distributed.tensor import Shard, distribute_tensor

    sharded = Parameter(distribute_tensor(torch.zeros(4, 3), mesh, [Shard(0)]))
    with pytest.raises(TypeError, match=r"parameter 0.*DTensor.*local"):
        fallline.AdamW([sharded])


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
