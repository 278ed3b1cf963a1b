"""A lowering is one file: a test adds one, and every elementwise rule passes its parity tests through it."""

from collections.abc import Iterator

import pytest
import torch

import fallline
from fallline.lower import catalogue
from fallline.optim.registry import find
from tests.lower.numpy_lowering import Numpy
from tests.optimizers import test_elementwise
from tests.optimizers.cases_elementwise import CASES, Case
from tests.parity import trajectories
from tests.parity.trajectories import VARIANTS, Trajectory

pytestmark = pytest.mark.usefixtures("one_thread", "numpy_lowering")


@pytest.fixture(scope="module")
def numpy_lowering() -> Iterator[None]:
    catalogue.register(Numpy())
    trajectories.LOWERINGS["numpy"] = test_elementwise.LOWERINGS["numpy"] = {"lowering": "numpy"}
    yield
    del catalogue._LOWERINGS["numpy"], trajectories.LOWERINGS["numpy"], test_elementwise.LOWERINGS["numpy"]


def is_elementwise(case: Case) -> bool:
    """A cautious mask has a mean, and clipping a norm, which are reductions."""
    described = find(case.optimizer)
    options = {name: value for name, value in case.options.items() if name != "cautious"}
    trace = described.rule.trace_for(described.expand(described.settings(options)), 2)
    return described.rule.program(trace).elementwise and not case.options.get("cautious")


ELEMENTWISE = [name for name, case in CASES.items() if is_elementwise(case)]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_rule_agrees_with_its_oracle(name: str) -> None:
    run = test_elementwise.Run(name, torch.float64, "numpy")
    run.run()
    assert {part.lowering for part in run.optimizer.explain().parts} == {"numpy"}
    run.check(rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_follows_its_trajectory(variant: str, dtype: torch.dtype) -> None:
    run = Trajectory(variant, "numpy", dtype, grouping="two", missing=True, lr_changes="number")
    for _ in range(30):
        run.step()
        run.check()
    assert ": numpy (asked for)" in run.optimizer.explain()


def test_its_obstacle_is_the_refusal_at_construction() -> None:
    with pytest.raises(ValueError, match=r"lowering='numpy' is not possible for parameter 0 of group 0: numpy steps"):
        fallline.AdamW([torch.zeros(3, dtype=torch.bfloat16)], lowering="numpy")


def test_a_program_that_it_misses_runs_through_the_next_best_and_says_so() -> None:
    param = torch.nn.Parameter(torch.ones(3, 4))
    param.grad = torch.ones(3, 4)
    opt = fallline.LAMB([param], lowering="numpy")
    with pytest.warns(RuntimeWarning, match="numpy runs elementwise rules only"):
        opt.step()
    (part,) = opt.explain().parts
    assert part.lowering in ("native", "foreach") and "numpy runs elementwise rules only" in part.reason


def test_name_that_is_taken_or_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="there is a lowering 'numpy' already"):
        catalogue.register(Numpy())
    with pytest.raises(ValueError, match="lowering must be one of native, native each, foreach, eager, compiled"):
        fallline.AdamW([torch.zeros(3)], lowering="cuda")
    with pytest.raises(ValueError, match="leave foreach, fused and compiled unset"):
        fallline.AdamW([torch.zeros(3)], lowering="eager", fused=True)
