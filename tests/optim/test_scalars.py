"""Step counters: equal or not, advanced by us or written by others."""

import pytest
import torch

import fallline
from fallline.optim.scalars import Counters


def common(counters: Counters) -> float | None:
    """As a step reads it."""
    if counters.version != counters.flat._version:
        counters.compare()
    return counters.common


def test_all_advance_together() -> None:
    counters = Counters(torch.zeros(3))
    assert common(counters) == 0.0
    counters.advance_all()
    assert common(counters) == 1.0 and counters.flat.tolist() == [1.0, 1.0, 1.0]


def test_some_that_stay_behind_are_noticed_and_may_catch_up() -> None:
    counters = Counters(torch.zeros(3))
    assert common(counters) == 0.0
    counters.advance([0, 2])
    assert common(counters) is None
    counters.advance_all()
    assert common(counters) is None and counters.flat.tolist() == [2.0, 1.0, 2.0]
    counters.set(1, 2.0)
    assert common(counters) == 2.0


def test_writes_through_a_view_are_noticed() -> None:
    counters = Counters(torch.zeros(3))
    view = counters.flat[1]
    assert common(counters) == 0.0
    view.fill_(5.0)
    assert common(counters) is None


def test_no_parameters_have_no_common_step() -> None:
    assert common(Counters(torch.zeros(0))) is None


@pytest.mark.parametrize("in_place", [True, False])
def test_a_counter_written_by_the_user_counts_at_the_next_step(in_place: bool) -> None:
    """Bias correction of one parameter as if it had made 99 steps: its update is that of torch at step 100."""
    ours = [torch.ones(4, requires_grad=True) for _ in range(2)]
    theirs = [torch.ones(4, requires_grad=True) for _ in range(2)]
    optimizers = fallline.AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)
    for k in range(3):
        for params, optimizer in zip((ours, theirs), optimizers, strict=True):
            for p in params:
                p.grad = torch.full((4,), 0.5)
            if k == 2:
                if in_place:
                    optimizer.state[params[1]]["step"].fill_(99.0)
                else:
                    optimizer.state[params[1]]["step"] = torch.tensor(99.0)
            optimizer.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q)
    assert not torch.equal(ours[0], ours[1])
