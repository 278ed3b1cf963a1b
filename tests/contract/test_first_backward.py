"""The first backward() with steps inside: each hook meets a parameter that had no gradient before."""

import pytest

from .test_step_in_backward import Instructions, group_each, one_optimizer, own_optimizers, work_per_hook

FEW, MANY = 10, 40

PLANS_ALL = pytest.mark.xfail(reason="a parameter's first gradient makes the plan of all that had one before it anew")


@pytest.mark.parametrize(
    "make",
    [
        own_optimizers,
        pytest.param(one_optimizer, marks=PLANS_ALL),
        pytest.param(group_each, marks=PLANS_ALL),
    ],
)
def test_the_first_backward_describes_each_parameter_once(make):
    work_per_hook(make, Instructions, FEW, first=True)  # what is traced and compiled once
    few, many = (work_per_hook(make, Instructions, count, first=True) for count in (FEW, MANY))
    assert many <= 1.1 * few
