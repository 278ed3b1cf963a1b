"""Lowerings in torch operations free their temporaries when they are not needed any more."""

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fallline


class MostAlive(TorchDispatchMode):
    """Counts full-size tensors that operations made and that nobody has freed yet."""

    def __init__(self, numel: int) -> None:
        super().__init__()
        self.numel, self.made, self.most = numel, [], 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.numel() == self.numel:
                self.made.append(weakref.ref(tensor))
        self.made = [ref for ref in self.made if ref() is not None]
        self.most = max(self.most, len(self.made))
        return result


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["adan", "adamw", "ademamix"])
def test_few_temporaries_are_alive_at_a_time(name: str, foreach: bool) -> None:
    p = torch.ones(1000, requires_grad=True)
    p.grad = torch.ones(1000)
    optimizer = fallline.create(name, [p], foreach=foreach, fused=False)
    optimizer.step()
    states = sum(torch.is_tensor(v) and v.numel() == 1000 for v in optimizer.state[p].values())
    with MostAlive(1000) as count:
        optimizer.step()
    # New values of the parameter and its states, and a few on the way to them.
    assert 0 < count.most <= states + 1 + 6
