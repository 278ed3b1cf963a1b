"""Sparse gradients: as torch's in SGD and Adagrad, refused by name elsewhere."""

import pytest
import torch

import fallline

from .trajectories import (
    LOWERINGS,
    OPTIMIZERS,
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


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in ("SGD", "Adagrad")])
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


def test_complex_sparse_gradient():
    ours, theirs = parameters((6, 3), dtype=torch.complex64), parameters((6, 3), dtype=torch.complex64)
    for params, sparse in ((ours, True), (theirs, False)):
        opt = fallline.SGD(params, lr=0.1)
        for step in range(2):
            gradient = sparse_gradient(params[0], step)
            params[0].grad = gradient if sparse else gradient.to_dense()
            opt.step()
    assert_near(values(ours), values(theirs))
