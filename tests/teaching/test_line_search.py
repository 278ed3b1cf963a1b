"""Gradient descent with line search against a straight-line version."""

import itertools
import math

import pytest
import torch

from fallline.teaching import LineSearchGD
from tests.contract.trajectories import assert_same, parameters, values


def make(function, start, **options):
    p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    opt = LineSearchGD([p], **options)

    def closure():
        opt.zero_grad()
        loss = function(p)
        loss.backward()
        return loss

    return p, opt, closure


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


@pytest.mark.parametrize(("sufficient", "shrink"), [(1e-4, 0.5), (0.3, 0.7), (0.9, 0.1)])
def test_trajectory_on_rosenbrock(sufficient, shrink):
    p, opt, closure = make(rosenbrock, [-1.2, 1.0], lr=1.0, sufficient=sufficient, shrink=shrink)
    x, y = -1.2, 1.0

    def f(x, y):
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2

    evaluations = 0
    for _ in range(25):
        gx, gy = -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)
        before, t = f(x, y), 1.0
        evaluations += 2
        while f(x - t * gx, y - t * gy) > before - sufficient * t * (gx * gx + gy * gy):
            t *= shrink
            evaluations += 1
        x, y = x - t * gx, y - t * gy
        assert opt.step(closure).item() == pytest.approx(before, rel=1e-9)
        assert opt.step_size == pytest.approx(t)
        assert p.tolist() == pytest.approx([x, y], rel=1e-8)
    assert opt.evaluations == evaluations


def test_loss_falls_at_every_step_whatever_the_rate():
    for lr in (1e-2, 1.0, 1e6):
        _, opt, closure = make(rosenbrock, [-1.2, 1.0], lr=lr)
        losses = [opt.step(closure).item() for _ in range(30)]
        assert all(b < a for a, b in itertools.pairwise(losses))


def test_steps_into_nan_are_shortened():
    p, opt, closure = make(lambda p: p.log().neg().sum() + 10 * p.sum(), [1.0], lr=1.0)
    opt.step(closure)
    assert 0 < opt.step_size < 1
    assert p.item() > 0


def test_groups_share_one_step_and_keep_their_rates():
    a, b = (torch.nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    opt = LineSearchGD([{"params": [a], "lr": 0.5}, {"params": [b], "lr": 0.25}])

    def closure():
        opt.zero_grad()
        loss = (a.square() + b.square()).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert opt.step_size == 1.0
    assert (a.item(), b.item()) == (0.0, 0.5)


def test_no_trial_good_enough_leaves_the_weights():
    # A gradient with the wrong sign: every step goes up.
    p = torch.nn.Parameter(torch.ones(2))
    opt = LineSearchGD([p], max_trials=5)

    def closure():
        p.grad = -2 * p.detach()
        return p.detach().square().sum()

    opt.step(closure)
    assert opt.step_size == 0.0
    assert opt.evaluations == 6
    assert_same(p.detach(), torch.ones(2))


def test_at_a_stationary_point_nothing_is_tried():
    _, opt, closure = make(lambda p: p.square().sum(), [0.0, 0.0])
    assert opt.step(closure).item() == 0.0
    assert (opt.step_size, opt.evaluations) == (0.0, 1)


def test_parameters_without_gradient_stay():
    a, b = parameters((3,), (2,))
    opt = LineSearchGD([a, b])
    untouched = values([b])

    def closure():
        opt.zero_grad()
        loss = a.square().sum()
        loss.backward()
        return loss

    with torch.no_grad():
        opt.step(closure)
    assert_same(values([b]), untouched)


def test_needs_a_closure():
    with pytest.raises(TypeError, match=r"needs a closure that computes one: step\(closure\)"):
        LineSearchGD(parameters((3,))).step()


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_loss_that_is_not_finite_before_the_step(loss):
    p, opt, closure = make(lambda p: p.sum() * loss, [1.0])
    with pytest.raises(ValueError, match=f"the loss is {loss:g} before the step"):
        opt.step(closure)
    assert p.item() == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0}, "lr must be > 0, got 0"),
        ({"sufficient": 1}, r"sufficient must be in \(0, 1\), got 1"),
        ({"shrink": 0}, r"shrink must be in \(0, 1\), got 0"),
        ({"max_trials": 0}, "max_trials must be a whole number >= 1, got 0"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        LineSearchGD(parameters((3,)), **options)


@pytest.mark.parametrize("lr", [0.0, -0.1, math.nan])
def test_bad_rate_of_a_group(lr):
    """With one that is not positive no step would ever be found good enough."""
    with pytest.raises(ValueError, match=f"lr must be .*> 0, got {lr:g}"):
        LineSearchGD([{"params": parameters((3,)), "lr": lr}])
    opt = LineSearchGD(parameters((3,)))
    with pytest.raises(ValueError, match=f"lr must be .*> 0, got {lr:g}"):
        opt.add_param_group({"params": parameters((3,)), "lr": lr})
    assert len(opt.param_groups) == 1
