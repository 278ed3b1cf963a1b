"""Steps inside of backward(): a hook of each parameter steps it as soon as its gradient is there, and lets it go.

Work is counted, not timed: instructions of Python, which see its loops, and accesses of tensors, which also see loops
in C (``map(Tensor.data_ptr, …)``).
"""

import sys

import pytest
import torch
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

import fallline

from .trajectories import assert_same, parameters, values

FEW, MANY = 50, 200


class Instructions:
    """Counts what Python executes in the functions that are called inside of ``with``."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _trace(self, frame, event, arg):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self._trace


class Accesses(TorchFunctionMode):
    """Counts functions, methods and attributes of tensors."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def own_optimizers(params):
    """As torch's tutorial has it: one optimizer for each parameter."""
    return {p: fallline.AdamW([p], lr=0.01) for p in params}


def one_optimizer(params):
    return dict.fromkeys(params, fallline.AdamW(params, lr=0.01))


def group_each(params):
    return dict.fromkeys(params, fallline.AdamW([{"params": [p]} for p in params], lr=0.01))


def attach(optimizers, counter=None):
    """Hooks that step a parameter when its gradient is there, counted or not."""

    def hook(param):
        if counter is None:
            optimizers[param].step()
        else:
            with counter:
                optimizers[param].step()
        param.grad = None

    return [p.register_post_accumulate_grad_hook(hook) for p in optimizers]


def backward(params):
    sum((p * p).sum() for p in params).backward()


def work_per_hook(make, counter_type, count, first=False):
    """Counts in the first backward pass, or in a later one, when all states are there."""
    optimizers = make([Parameter(torch.randn(8)) for _ in range(count)])
    if not first:
        backward(optimizers)
        for optimizer in set(optimizers.values()):
            optimizer.step()
            optimizer.zero_grad()
        handles = attach(optimizers)
        backward(optimizers)
        for handle in handles:
            handle.remove()
    counter = counter_type()
    attach(optimizers, counter)
    backward(optimizers)
    assert counter.count > count, "nothing was counted"
    return counter.count / count


@pytest.mark.parametrize("make", [own_optimizers, one_optimizer, group_each])
def test_steps_in_backward_are_those_of_one_step_after_it(make):
    params, twins = parameters((5, 3), (4,), ()), parameters((5, 3), (4,), ())
    attach(make(params))
    after = fallline.AdamW(twins, lr=0.01)
    for _ in range(3):
        backward(params)
        backward(twins)
        after.step()
        after.zero_grad()
    assert_same(values(params), values(twins))
    assert all(p.grad is None for p in params)


@pytest.mark.parametrize("counter", [Instructions, Accesses])
@pytest.mark.parametrize("first", [False, True])
def test_an_optimizer_for_each_parameter_costs_the_same_whatever_their_number(counter, first):
    few, many = (work_per_hook(own_optimizers, counter, count, first) for count in (FEW, MANY))
    assert many <= 1.02 * few


def test_a_step_over_one_of_many_parameters_executes_no_more_python_than_one_of_few():
    assert work_per_hook(one_optimizer, Instructions, MANY) <= 1.02 * work_per_hook(one_optimizer, Instructions, FEW)


def test_a_step_over_one_of_many_groups_executes_no_more_python_than_one_of_few():
    assert work_per_hook(group_each, Instructions, MANY) <= 1.02 * work_per_hook(group_each, Instructions, FEW)


@pytest.mark.parametrize("make", [one_optimizer, group_each])
def test_a_step_over_one_of_many_parameters_looks_at_the_others_once(make):
    """At their gradients: nobody has told the optimizer which of them there are."""
    more = work_per_hook(make, Accesses, MANY) - work_per_hook(make, Accesses, FEW)
    assert more <= MANY - FEW
