"""Complex parameters, and views that torch conjugates or negates when they are read."""

import pytest
import torch
from torch.nn import Parameter

import fallline
from fallline.rules import mean, rule

from .trajectories import (
    LOWERINGS,
    TORCH_CASES,
    assert_near,
    assert_same,
    named,
    parameters,
    run,
    set_gradients,
    values,
)


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
    """Autograd gives one for the imaginary part of a conjugate."""
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


@pytest.mark.parametrize(
    "name", [name for name in fallline.list_optimizers() if "complex parameters" not in fallline.info(name).cannot]
)
def test_complex_parameters_are_stepped_as_pairs_of_reals(name):
    ours = parameters((4, 5), (3,), (), dtype=torch.complex64)
    pairs = [Parameter(torch.view_as_real(p.detach()).clone()) for p in ours]
    a, b = (fallline.create(name, ps, fused=True) for ps in (ours, pairs))
    for step in range(3):
        set_gradients(ours, step)
        for p, q in zip(ours, pairs, strict=True):
            q.grad = torch.view_as_real(p.grad).clone()
        a.step()
        b.step()
    assert_near([torch.view_as_real(p) for p in values(ours)], values(pairs))
    again = fallline.create(name, ours)
    again.load_state_dict(a.state_dict())
    for p, q in zip(ours, pairs, strict=True):
        shapes = {k: v.shape for k, v in again.state[p].items() if not v.is_complex()}
        assert shapes == {k: b.state[q][k].shape for k in shapes}


def test_rules_that_depend_on_axes_refuse_complex_parameters():
    """torch's Adafactor does too.  As pairs of reals a vector would be a matrix, and a matrix a stack of thin ones."""
    refusing = {name for name in fallline.list_optimizers() if "complex parameters" in fallline.info(name).cannot}
    matrix = {"caspr", "muon", "muon8bit", "normuon", "shampoo", "shampoo_algoperf", "soap"}
    assert refusing == {"adafactor", "adamp", "amos", "amos_algoperf", "mars", "sgdp", *matrix}
    (plain,), (pair,) = parameters((2, 2)), parameters((3,), dtype=torch.complex64)
    with pytest.raises(TypeError, match=r"Adafactor does not take complex parameters.*parameter 1 of group 0.*AdamW"):
        fallline.Adafactor([plain, pair])

    @rule
    def by_rows(p, g, *, lr, ndim):
        return p - lr * (g / (1 + mean(g * g, -1)) if ndim > 1 else g)

    with pytest.raises(TypeError, match="ByRows does not take complex parameters"):
        fallline.optimizer(by_rows, lr=0.1)([pair])
