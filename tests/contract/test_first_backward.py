"""The first backward() with steps inside: each hook meets a parameter that had no gradient before."""

import pytest
import torch
from torch.nn import Parameter

import fallline

from .test_step_in_backward import (
    Instructions,
    attach,
    backward,
    group_each,
    one_optimizer,
    own_optimizers,
    work_per_hook,
)
from .trajectories import assert_same, parameters, values

FEW, MANY = 10, 40


def with_masters(params):
    return dict.fromkeys(params, fallline.AdamW(params, lr=0.01, master_weights=True))


@pytest.mark.parametrize("make", [own_optimizers, one_optimizer, group_each])
def test_the_first_backward_describes_each_parameter_once(make):
    work_per_hook(make, Instructions, FEW, first=True)  # traces and compiles, once
    few, many = (work_per_hook(make, Instructions, count, first=True) for count in (FEW, MANY))
    assert many <= 1.1 * few


@pytest.mark.parametrize("later", [False, True])
def test_a_whole_step_after_a_backward_with_steps_inside_is_like_any_other(later):
    """Each parameter has been planned alone by then; from now on all are planned together."""
    params, twins = parameters((5, 3), (4,), ()), parameters((5, 3), (4,), ())
    ours, plain = fallline.AdamW(params, lr=0.01), fallline.AdamW(twins, lr=0.01)
    handles = attach(dict.fromkeys(params, ours))
    for _ in range(2 if later else 1):
        backward(params)
        backward(twins)
        plain.step()
        plain.zero_grad()
    for handle in handles:
        handle.remove()
    for _ in range(2):
        backward(params)
        backward(twins)
        for optimizer in (ours, plain):
            optimizer.step()
            optimizer.zero_grad()
    assert_same(values(params), values(twins))
    assert [float(ours.state[p]["step"]) for p in params] == [float(plain.state[p]["step"]) for p in twins]
    assert ours.launches == plain.launches


def test_modes_change_all_weights_after_steps_of_single_parameters():
    params = parameters((5, 3), (4,), (2,))
    optimizer = fallline.ScheduleFreeSGD(params, lr=0.1)
    handles = attach(dict.fromkeys(params, optimizer))
    backward(params)
    backward(params[:1])
    backward(params[1:])
    for handle in handles:
        handle.remove()
    trained = values(params)
    optimizer.eval()
    assert not any(torch.equal(param, before) for param, before in zip(params, trained, strict=True))
    optimizer.train()
    assert_same(values(params), trained)


def test_a_few_16_bit_parameters_with_master_weights_cost_what_these_few_cost():
    def work(count):
        params = [Parameter(torch.randn(8).bfloat16()) for _ in range(count)]
        optimizers = with_masters(params)
        backward(params)
        optimizers[params[0]].step()
        optimizers[params[0]].zero_grad()
        counter = Instructions()
        attach(optimizers, counter)
        backward(params)
        return counter.count / count

    work(FEW)
    assert work(MANY) <= 1.1 * work(FEW)
